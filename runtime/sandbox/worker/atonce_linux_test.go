package worker_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/worker"
)

// A worker that does not listen gets what its pipe has room for, and the host goes on;
// what it had no room for is said later, and everything arrives once.
func TestAnOfferWaitsForNobody(t *testing.T) {
	const calls = 40
	p := start(t, worker.Settings{})
	if err := p.Send(&frame.ToWorker{Check: &frame.Check{Source: fmt.Sprintf("calls %d", calls)}}); err != nil {
		t.Fatal(err)
	}
	if m, err := p.Recv(); err != nil || m.Checked == nil {
		t.Fatalf("it says %+v, %v", m, err)
	}
	if p.Offer(&frame.ToWorker{Reply: &frame.Reply{Seq: 1}}) {
		t.Error("a reply to no call was taken")
	}
	if err := p.Send(&frame.ToWorker{Run: &frame.Run{Limits: limits}}); err != nil {
		t.Fatal(err)
	}
	for got := 0; got < calls; got++ {
		if m, err := p.Recv(); err != nil || m.Call == nil {
			t.Fatalf("it says %+v, %v", m, err)
		}
	}
	reply := func(seq, size int) *frame.ToWorker {
		return &frame.ToWorker{Reply: &frame.Reply{Seq: seq, Value: `"` + strings.Repeat("x", size) + `"`}}
	}
	if p.Offer(reply(1, 5000)) {
		t.Error("a reply was offered that a pipe may take in part")
	}
	if err := syscall.Kill(p.Pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for !stopped(t, p.Pid()) { // the signal is on its way: a thread that runs may still read
		time.Sleep(time.Millisecond)
	}
	taken := 0
	for taken < calls && p.Offer(reply(taken+1, 3900)) {
		taken++
	}
	if taken == 0 || taken == calls {
		t.Errorf("a worker that stands still was given %d replies", taken)
	}
	if err := syscall.Kill(p.Pid(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for seq := taken + 1; seq <= calls; seq++ {
		if err := p.Send(reply(seq, 3900)); err != nil {
			t.Fatal(err)
		}
	}
	for {
		m, err := p.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.Done != nil {
			if want := fmt.Sprint(calls * 3902); m.Done.Value != want {
				t.Errorf("it got %s bytes, want %s", m.Done.Value, want)
			}
			return
		}
	}
}

// stopped reports whether every thread of a process stands still (proc(5)).
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(stats) == 0 {
		t.Fatalf("the threads of %d: %v, %v", pid, stats, err)
	}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(text), ") ") // behind the name
		if !strings.HasPrefix(after, "T") {
			return false
		}
	}
	return true
}
