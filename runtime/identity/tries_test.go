package identity

import (
	"fmt"
	"testing"
	"time"
)

// A source that shows many tokens that nobody knows is told to wait, another one is
// not, and what is remembered of them is bounded.
func TestWrongTokensAreCountedBySource(t *testing.T) {
	var all tries
	now := time.Unix(1000, 0)
	for n := range mostTries {
		if wait := all.late("192.0.2.1", now); wait != 0 {
			t.Fatalf("try %d waits %v", n, wait)
		}
	}
	if wait := all.late("192.0.2.1", now.Add(4*time.Second)); wait != 6*time.Second {
		t.Errorf("one too many waits %v", wait)
	}
	if wait := all.late("192.0.2.2", now); wait != 0 {
		t.Errorf("another source waits %v", wait)
	}
	for _, later := range []time.Duration{triesWindow, -time.Minute} { // a clock that was set back locks nobody out
		if wait := all.late("192.0.2.1", now.Add(later)); wait != 0 {
			t.Errorf("after %v it waits %v", later, wait)
		}
	}
	for n := range 10 * mostSources {
		all.late(fmt.Sprint(n), now)
	}
	if len(all.of) > mostSources+1 {
		t.Errorf("%d sources are remembered", len(all.of))
	}
	if wait := all.late("a new one", now); wait == 0 {
		t.Error("sources without room have no bound of their own")
	}
	if wait := all.late("a new one", now.Add(2*triesWindow)); wait != 0 {
		t.Errorf("with room again it waits %v", wait)
	}
}
