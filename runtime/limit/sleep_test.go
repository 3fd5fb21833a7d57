package limit_test

import (
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// An empty bucket fills while the machine sleeps.
func TestABucketFillsWhileTheMachineSleeps(t *testing.T) {
	l, b, now := process(t, newStore()), bucket("a", 1, time.Hour), time.Now()
	if e := take(t, l, now, b); e != nil {
		t.Fatal(e)
	}
	if e := take(t, l, now, b); e == nil {
		t.Fatal("two requests of one")
	}
	now = runtimetest.Asleep(now, 2*time.Hour)
	if e := take(t, l, now, b); e != nil {
		t.Errorf("after two hours of sleep: %v", e)
	}
}

// What a process had drawn before the machine slept is not there beside the full bucket.
func TestALeaseDoesNotOutliveASleep(t *testing.T) {
	l, b, now := process(t, newStore()), bucket("a", 100, time.Hour), time.Now()
	for range 10 {
		if e := take(t, l, now, b); e != nil {
			t.Fatal(e)
		}
	}
	now, passed := runtimetest.Asleep(now, 200*time.Hour), 0
	for take(t, l, now, b) == nil {
		passed++
	}
	if passed != 100 {
		t.Errorf("%d of a burst of 100 passed", passed)
	}
}
