package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// countdown shows on a terminal how long a person still has to decide, on one
// line that is written over each second. stop takes the line away; it may be called
// often, and before anything else is printed.
func (c *cli) countdown(until time.Time) (stop func()) {
	if !c.overwrites() || c.quiet {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			fmt.Fprintf(c.err, "\r\033[Kwaiting for the decision, %s left ", runtime.Span(time.Until(until).Round(time.Second)))
			select {
			case <-quit:
				fmt.Fprint(c.err, "\r\033[K")
				return
			case <-tick.C:
			}
		}
	}()
	return sync.OnceFunc(func() { close(quit); <-done })
}
