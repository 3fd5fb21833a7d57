package main

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// The same signal again is no second one until its time is over; another one is at once.
func TestTheSameSignalAtOnceIsOne(t *testing.T) {
	for name, c := range map[string]struct {
		came []os.Signal
		want os.Signal
	}{
		"alone":      {nil, nil},
		"twice":      {[]os.Signal{syscall.SIGTERM, syscall.SIGTERM}, nil},
		"another":    {[]os.Signal{syscall.SIGTERM, os.Interrupt}, os.Interrupt},
		"of another": {[]os.Signal{os.Interrupt}, os.Interrupt},
	} {
		came, over, got := make(chan os.Signal), make(chan time.Time), make(chan os.Signal)
		go func() { got <- otherThan(syscall.SIGTERM, came, over) }()
		for _, by := range c.came {
			came <- by
		}
		if c.want == nil {
			over <- time.Time{}
		}
		if by := <-got; by != c.want {
			t.Errorf("%s: %v, want %v", name, by, c.want)
		}
	}
}
