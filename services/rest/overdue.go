package rest

import (
	"sync"
	"time"
)

// overdue tells when one thing has been waited for longer than the idle time of an exchange. Its
// zero value heeds nothing.
type overdue struct {
	mu    sync.Mutex
	of    *exchange // nil: nobody heeds
	over  func()
	timer *time.Timer // nil before there was anything to wait for
	waits bool
	since time.Time
}

// heed has over called when a wait of x was too long, until end.
func (o *overdue) heed(x *exchange, over func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of, o.over = x, over
}

// heeds reports whether anybody does.
func (o *overdue) heeds() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of != nil
}

// wait begins a wait.
func (o *overdue) wait() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		return
	}
	o.waits, o.since = true, time.Now()
	if idle := o.of.lines.o.IdleTimeout; o.timer == nil {
		o.timer = time.AfterFunc(idle, o.late)
	} else {
		o.timer.Reset(idle)
	}
}

// came ends it.
func (o *overdue) came() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rest()
}

func (o *overdue) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of = nil
	o.rest()
}

func (o *overdue) rest() {
	if o.waits {
		o.waits = false
		o.timer.Stop()
	}
}

func (o *overdue) late() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if x := o.of; x != nil && o.waits && time.Since(o.since) >= x.lines.o.IdleTimeout { // else it came too late itself
		o.over()
	}
}
