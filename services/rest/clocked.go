package rest

import (
	"io"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// clocked reads a body of net/http's and ends the exchange when nothing comes for the idle time,
// and nothing of the request's body leaves either: the upstream may wait with its answer for the
// rest of it.
type clocked struct {
	x    *exchange
	src  io.Reader
	idle time.Duration
	over func() // ends the exchange
	end  error

	mu    sync.Mutex
	timer *time.Timer
	waits bool // for the upstream
}

func (x *exchange) clocked(src io.Reader, over func()) *clocked {
	c := &clocked{x: x, src: src, idle: x.lines.o.IdleTimeout, over: over}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(c.idle, c.late)
	return c
}

// Read implements [io.Reader].
func (c *clocked) Read(p []byte) (int, error) {
	if c.end != nil {
		return 0, c.end
	}
	if c.x.held != nil {
		defer c.x.soon()()
	}
	c.wait(true)
	n, err := c.src.Read(p)
	c.wait(false) // the caller's own slowness is not the upstream's
	c.end = err
	return n, err
}

func (c *clocked) wait(begins bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits = begins; begins {
		c.timer.Reset(c.idle)
	} else {
		c.timer.Stop()
	}
}

// late is called when nothing has come for the idle time.
func (c *clocked) late() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.waits {
		return
	}
	if left := c.x.sent.moving(c.idle); left > 0 {
		c.timer.Reset(left)
		return
	}
	c.over()
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
		var err error
		defer runtime.Contain(&err) // the read goes on, and meets what is wrong
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
