package proxy

import (
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// plainly are the requests in plain HTTP that are served on the listener's own
// connections: no tunnel has a place for them. The zero value is empty.
type plainly struct {
	mu   sync.Mutex
	open map[*conn]plainRequest // a connection has one at a time
}

type plainRequest struct {
	owner  string
	caller runtime.Caller
	began  time.Time
}

func (p *plainly) enter(c *conn, owner string, caller runtime.Caller) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = map[*conn]plainRequest{}
	}
	p.open[c] = plainRequest{owner, caller, time.Now()}
}

func (p *plainly) leave(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

// callers adds one caller of each owner.
func (p *plainly) callers(to map[string]runtime.Caller) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.open {
		to[r.owner] = r.caller
	}
}

// cut resets the connections of an owner whose request has been there for longer
// than a refusal takes: its answer flows, and must not look complete.
func (p *plainly) cut(owner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, r := range p.open {
		if r.owner == owner && time.Since(r.began) > refusalTime {
			c.reset()
		}
	}
}
