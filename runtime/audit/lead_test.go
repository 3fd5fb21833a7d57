package audit_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// A group waits for those who are about to join it only while there are several
// callers at a time: one who is alone waits for the disk and for nothing else.
func TestOnlyACrowdIsWaitedFor(t *testing.T) {
	l := audittest.Open(t, audittest.Options(t.TempDir()))
	intend := func(n int) {
		if err := l.Intent(t.Context(), audittest.Record(fmt.Sprint("req_", n))); err != nil {
			t.Error(err)
		}
	}
	for round := range 2 {
		for n := range 3 {
			intend(100*round + n)
		}
		if l.Crowded() {
			t.Fatal("one at a time is a crowd")
		}
		crowd(t, l, func(n int) { intend(100*round + 10 + n) })
		if !l.Crowded() {
			t.Fatal("three at a time are no crowd")
		}
	}
}

// crowd has three callers wait for one group.
func crowd(t *testing.T, l *audit.Log, intend func(n int)) {
	t.Helper()
	release := l.Hold()
	var callers sync.WaitGroup
	for n := range 3 {
		callers.Go(func() { intend(n) })
	}
	runtimetest.Eventually(t, "three intents wait", func() bool { return l.Health().Queue >= 3 })
	release()
	callers.Wait()
}

// A crowd lets the threads of the machine go first, until that gave the time to
// somebody else's work: then it does not for 25 times as long.
func TestACrowdLetsTheMachineGoFirst(t *testing.T) {
	begin := time.Now()
	var yields, since, takes atomic.Int64 // since the beginning, ns; of a yield, ns
	o := audittest.Options(t.TempDir())
	o.Clock = func() time.Time { return begin.Add(time.Duration(since.Load())) }
	o.Yield = func() {
		yields.Add(1)
		since.Add(takes.Load())
	}
	l := audittest.Open(t, o)
	intend := func(n int) {
		if err := l.Intent(t.Context(), audittest.Record(fmt.Sprint("req_", n))); err != nil {
			t.Error(err)
		}
	}
	gave := func(want bool, why string) {
		t.Helper()
		yields.Store(0)
		intend(0) // after the crowd, a group of its own
		if got := yields.Load() > 0; got != want {
			t.Errorf("%s: the machine was let go first: %t", why, got)
		}
		crowd(t, l, intend)
	}
	intend(1)
	gave(false, "nobody waited")
	gave(true, "after a crowd")
	takes.Store(int64(5 * time.Millisecond))
	gave(true, "after a crowd")
	takes.Store(0)
	gave(false, "somebody else had the time")
	since.Add(int64(124 * time.Millisecond))
	gave(false, "not long ago")
	since.Add(int64(2 * time.Millisecond))
	gave(true, "for a while nobody had")
}

// Nobody gives way for a writer that finds nothing: what it was called for is written.
func TestAWriterWithNothingToWriteLetsNobodyGoFirst(t *testing.T) {
	var yields atomic.Int64
	o := audittest.Options(t.TempDir())
	o.Yield = func() { yields.Add(1) }
	l := audittest.Open(t, o)
	crowd(t, l, func(n int) {
		if err := l.Intent(t.Context(), audittest.Record(fmt.Sprint("req_", n))); err != nil {
			t.Error(err)
		}
	})
	if !l.Crowded() {
		t.Fatal("three at a time are no crowd")
	}
	yields.Store(0)
	l.Wake()
	if n := yields.Load(); n > 0 {
		t.Errorf("it did %d times", n)
	}
}
