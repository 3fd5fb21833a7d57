package runtimetest

import (
	"testing"
	"time"
)

// patience is more than any machine needs for what [Eventually] waits for.
const patience = 20 * time.Second

// Eventually waits until ok holds, for what another goroutine or process brings about at a time
// that no clock of the test tells. With what never comes it fails the test; what names that.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	Within(t, patience, what, ok)
}

// Within is Eventually with a limit of its own.
func Within(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	pause := time.Millisecond // longer each time: looking may cost more than what is waited for
	for end := time.Now().Add(limit); !ok(); pause = min(2*pause, 20*time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v: %s", limit, what)
		}
		time.Sleep(pause)
	}
}
