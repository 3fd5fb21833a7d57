package rest

import (
	"io"
	"sync"
	"time"
)

// clocked reads a body of net/http's and cancels the exchange when nothing comes for the
// idle time.
type clocked struct {
	x     *exchange
	src   io.Reader
	idle  time.Duration
	timer *time.Timer
	end   error
}

// Read implements [io.Reader].
func (c *clocked) Read(p []byte) (int, error) {
	if c.end != nil {
		return 0, c.end
	}
	if c.x.held != nil {
		defer c.x.soon()()
	}
	c.timer.Reset(c.idle)
	n, err := c.src.Read(p)
	c.timer.Stop() // the caller's own slowness is not the upstream's
	c.end = err
	return n, err
}

// hurry lets a head go that was held back for bytes of the body.
func (x *exchange) hurry() {
	if held := x.held; held != nil {
		x.held = nil
		held.Hurry()
	}
}

// shortly is how long a head waits for what most of the time comes with it: nobody notices.
const shortly = 20 * time.Millisecond

// soon is hurry where a read takes longer than that: of net/http nobody hears that it waits.
// The result is for the read's end, and returns when nobody writes beside the caller.
func (x *exchange) soon() (ended func()) {
	var mu sync.Mutex
	over := false
	late := time.AfterFunc(shortly, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			x.hurry()
		}
	})
	return func() {
		late.Stop()
		mu.Lock()
		defer mu.Unlock()
		over = true
	}
}
