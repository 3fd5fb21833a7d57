package app_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// mostOfAWorker is what a worker may ever take, in bytes.
const mostOfAWorker = 300 << 20

// Many scripts that allocate to their limit run two at a time, with two processes that
// wait for the next ones: there are no more, and none takes more than it may.
func TestHostileScriptsStayWithinNumberAndMemory_EX019(t *testing.T) {
	const workers, scripts = 2, 12
	_, client := scripting(t, apptest.Options{Config: fmt.Sprintf("exec: {workers: %d, timeout: 60s}\n", workers)})
	done := make(chan struct{})
	var watch sync.WaitGroup
	most, peaks := 0, map[int]int{}
	watch.Go(func() {
		for {
			now := children(t)
			most = max(most, len(now))
			for pid, peak := range now {
				peaks[pid] = max(peaks[pid], peak)
			}
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	})
	var wg sync.WaitGroup
	for range scripts {
		wg.Go(func() {
			got := post(t, client, "/v1/exec", map[string]any{"code": `const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1))`, "timeoutMs": 20_000}, "")
			if got.Kind != frame.KindMemory {
				t.Errorf("it ended by %q: %d %.300s", got.Kind, got.status, got.text)
			}
		})
	}
	wg.Wait()
	close(done)
	watch.Wait()
	if most < workers || most > 2*workers {
		t.Errorf("%d processes ran scripts or waited for some", most)
	}
	highest := 0
	for pid, peak := range peaks {
		if highest = max(highest, peak); peak > mostOfAWorker {
			t.Errorf("the worker %d took %d MiB", pid, peak>>20)
		}
	}
	if len(peaks) < scripts || highest < 64<<20 {
		t.Errorf("%d workers were seen, the largest of %d MiB: the scenario did not happen", len(peaks), highest>>20)
	}
}

// children are the workers of this process, with what each has taken at most. One that is only
// being started has this process's memory still, and its command line; it is seen next time.
func children(t *testing.T) map[int]int {
	t.Helper()
	processes, err := os.ReadDir("/proc")
	if err != nil {
		t.Error(err)
		return nil
	}
	ours, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		t.Error(err)
	}
	parent := fmt.Sprintf("\nPPid:\t%d\n", os.Getpid())
	found := map[int]int{}
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		if line, err := os.ReadFile("/proc/" + p.Name() + "/cmdline"); err != nil || bytes.Equal(line, ours) {
			continue // it has ended, or is being started
		}
		status, err := os.ReadFile("/proc/" + p.Name() + "/status")
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !strings.Contains(err.Error(), "no such process") {
			t.Error(err)
		}
		if !bytes.Contains(status, []byte(parent)) {
			continue
		}
		_, rest, alive := strings.Cut(string(status), "\nVmHWM:")
		if !alive { // it has ended, and nobody has waited for it yet
			continue
		}
		kib, err := strconv.Atoi(strings.Fields(rest)[0])
		if err != nil {
			t.Error(err)
		}
		found[pid] = kib << 10
	}
	return found
}
