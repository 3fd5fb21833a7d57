package main

import (
	"fmt"
	"sync"
	"time"
)

// quietFor is how long a call takes before something is said of it.
const quietFor = time.Second

// progress shows on a terminal, once a call takes longer than a second, for how
// long and how many pages have come, on one line that is written over. done takes
// it away; it may be called often, and before anything else is printed.
func (c *cli) progress(service string) (told func(pages, elements int), done func()) {
	if !c.errTTY || c.quiet || c.verbose > 0 {
		return nil, func() {}
	}
	var mu sync.Mutex
	what, began := "waiting for "+service, time.Now()
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
			fmt.Fprintf(c.err, "\r\033[K%s, %s ", what, time.Since(began).Round(time.Second))
			mu.Unlock()
		}
	}()
	told = func(pages, elements int) {
		mu.Lock()
		defer mu.Unlock()
		what = fmt.Sprintf("%s: %s, %s", service, count(pages, "page"), count(elements, "element"))
	}
	return told, sync.OnceFunc(func() { close(quit); <-gone })
}
