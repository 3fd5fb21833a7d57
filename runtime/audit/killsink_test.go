//go:build unix

package audit_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	form "github.com/kimbap-run/kimbap/runtime/audit/segment"
	"github.com/kimbap-run/kimbap/runtime/audit/sink"
	"github.com/kimbap-run/kimbap/runtime/audit/sink/webhook"
)

// collector is what a webhook posts to. While it is unsteady it takes some posts, refuses
// some, and breaks off some: before it has read them, or when it has and nobody is told.
type collector struct {
	*httptest.Server
	unsteady atomic.Bool
	asked    atomic.Int64

	mu  sync.Mutex
	got map[string][]string // by slot
}

func newCollector(t *testing.T) *collector {
	c := &collector{got: map[string][]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := c.asked.Add(1) % 16
		down := c.unsteady.Load() && n >= 12
		if down && n < 14 {
			panic(http.ErrAbortHandler)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if down && n < 15 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		c.mu.Lock()
		slot := r.Header.Get("Kimbap-Audit-Slot")
		c.got[slot] = append(c.got[slot], strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")...)
		c.mu.Unlock()
		if down {
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// required is a sink that posts to a URL.
func required(url string) (outlet.Sink, error) {
	poster, err := sink.NewPoster(sink.PosterOptions{URL: url})
	if err != nil {
		return nil, err
	}
	return webhook.New(poster, true)
}

// ledgerOf returns the lines of a slot, of all its segments.
func ledgerOf(t *testing.T, dir, slot string) (lines []string) {
	t.Helper()
	numbers, err := form.List(filepath.Join(dir, slot))
	if err != nil {
		t.Fatal(err)
	}
	for _, number := range numbers {
		data, err := os.ReadFile(filepath.Join(dir, slot, form.Name(number)))
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.TrimRight(string(data), " \n"); text != "" {
			lines = append(lines, strings.Split(text, "\n")...)
		}
	}
	return lines
}

// whole demands that a sink has all lines of a ledger, each for the first time in its turn.
func whole(t *testing.T, got, ledger []string) (repeated int) {
	t.Helper()
	next, seen := 0, map[string]bool{}
	for _, line := range got {
		if seen[line] {
			repeated++
			continue
		}
		seen[line] = true
		if next == len(ledger) || ledger[next] != line {
			t.Fatalf("after %d of %d lines the sink has got\n%s", next, len(ledger), line)
		}
		next++
	}
	if next != len(ledger) {
		t.Fatalf("the sink has %d lines, the ledger %d; the first that it lacks is\n%s", next, len(ledger), ledger[next])
	}
	return repeated
}

// Whenever a process is killed, and whatever the required sink did at that time: after the
// next start it has all that the ledger has.
func TestKillWithAnUnsteadySinkLeavesNoGapInIt(t *testing.T) {
	for _, role := range []string{"sink-load", "sink-load-last"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			dir, c := t.TempDir(), newCollector(t)
			c.unsteady.Store(true)
			for round := range 6 {
				cmd := command(t, role, dir)
				cmd.Env = append(cmd.Env, "KIMBAP_AUDIT_SINK="+c.URL)
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				ends := bufio.NewScanner(out)
				for n := 0; ends.Scan(); n++ {
					if n == 60+47*round {
						_ = cmd.Process.Kill()
					}
				}
				_ = cmd.Wait()
			}
			c.unsteady.Store(false)
			s, err := required(c.URL)
			if err != nil {
				t.Fatal(err)
			}
			o := audittest.Options(dir)
			o.Sinks = []outlet.Sink{s}
			l := audittest.Open(t, o)
			if err := l.Ready(); err != nil {
				t.Fatal(err)
			}
			audittest.Shut(t, l)
			audittest.Verified(t, dir)
			ledger := ledgerOf(t, dir, "proxy")
			c.mu.Lock()
			defer c.mu.Unlock()
			repeated := whole(t, c.got["proxy"], ledger)
			t.Logf("%d lines, %d of them came again", len(ledger), repeated)
			if repeated > len(ledger)/2 {
				t.Errorf("of %d lines %d came again", len(ledger), repeated)
			}
		})
	}
}

// sinkLoad makes records until it is killed, with a required sink, and prints a line for
// each request that ended, whether it was let through or refused.
func sinkLoad(dir string, last bool) error {
	s, err := required(os.Getenv("KIMBAP_AUDIT_SINK"))
	if err != nil {
		return err
	}
	o := audittest.Options(dir)
	o.Sinks, o.SinksLast, o.SegmentSize = []outlet.Sink{s}, last, 64<<10
	l, err := opened(o)
	if err != nil {
		return err
	}
	for c := range 4 {
		go func() {
			for i := 0; ; i++ {
				r := audittest.Record(fmt.Sprintf("req_%d_%d_%d", os.Getpid(), c, i))
				err := l.Intent(context.Background(), r)
				r.Err = runtime.AsError(err)
				l.Outcome(r)
				_, _ = os.Stdout.WriteString(r.ID + "\n")
				if err != nil {
					time.Sleep(20 * time.Millisecond) // as a client that tries again
				}
			}
		}()
	}
	select {}
}
