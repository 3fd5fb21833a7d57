package audit_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
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
		release := l.Hold()
		var callers sync.WaitGroup
		for n := range 3 {
			callers.Go(func() { intend(100*round + 10 + n) })
		}
		for end := time.Now().Add(10 * time.Second); l.Health().Queue < 3 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		release()
		callers.Wait()
		if !l.Crowded() {
			t.Fatal("three at a time are no crowd")
		}
	}
}
