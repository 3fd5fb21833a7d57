package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// quietFor is how long work takes before something is said of it.
const quietFor = time.Second

// progress is working for a call of a service, told of the pages that have come.
func (c *cli) progress(service string) (told func(pages, elements int), done func()) {
	say, done := c.working("waiting for " + service)
	if say == nil {
		return nil, done
	}
	return func(pages, elements int) {
		say(fmt.Sprintf("%s: %s, %s", service, count(pages, "page"), count(elements, "element")))
	}, done
}

// sayBusy tells a person why a call takes longer: too many of the caller's own are under way.
func (c *cli) sayBusy(wait time.Duration) {
	if c.errTTY {
		c.say("too many of this caller's requests are not answered yet: trying again in %s", runtime.Span(wait))
	}
}

// overwrites reports whether a person watches at a terminal whose lines can be written
// over. One inside an editor often cannot do that, and says so.
func (c *cli) overwrites() bool { return c.errTTY && c.getenv("TERM") != "dumb" }

// working shows on a terminal, once work takes longer than a second, what it is and
// for how long, on one line that is written over. say changes what it is, and is nil
// where nobody watches; done takes the line away, and may be called often, and before
// anything else is printed.
func (c *cli) working(what string) (say func(string), done func()) {
	if !c.overwrites() || c.quiet || c.verbose > 0 {
		return nil, func() {}
	}
	var mu sync.Mutex
	began := time.Now()
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(quietFor)
		defer tick.Stop()
		for shown := false; ; shown = true {
			select {
			case <-quit:
				if shown {
					fmt.Fprint(c.err, "\r\033[K")
				}
				return
			case <-tick.C:
			}
			mu.Lock()
			fmt.Fprintf(c.err, "\r\033[K%s, %s ", what, runtime.Span(time.Since(began).Round(time.Second)))
			mu.Unlock()
		}
	}()
	say = func(now string) {
		mu.Lock()
		defer mu.Unlock()
		what = now
	}
	return say, sync.OnceFunc(func() { close(quit); <-gone })
}
