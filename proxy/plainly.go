package proxy

import (
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// plainly is the request in plain HTTP that is served on one of the listener's
// own connections: no tunnel has a place for it. A connection has one at a time.
// The lock is the connection's own, so that requests do not wait for each other;
// who wants to know them all goes through the visitors ([visitors.each]).
type plainly struct {
	mu     sync.Mutex
	owner  string // "" while there is none
	caller runtime.Caller
	target runtime.Target
	began  time.Time
}

func (p *plainly) enter(owner string, caller runtime.Caller) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owner, p.caller, p.target, p.began = owner, caller, runtime.Target{}, now
}

// aim says where the request goes, once that is known.
func (p *plainly) aim(target runtime.Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

func (p *plainly) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owner, p.caller, p.target = "", runtime.Caller{}, runtime.Target{}
}

// whose is the owner and caller of the request, "" when there is none.
func (p *plainly) whose() (owner string, caller runtime.Caller) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.owner, p.caller
}

// cut resets the connection c, whose p is, if its request is one of those that which
// asks for, and has been there for longer than a refusal takes: its answer flows, and
// must not look complete. The request cannot end in the meantime and make room for one
// of somebody else.
func (p *plainly) cut(c *conn, which func(owner string, target runtime.Target) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.owner != "" && time.Since(p.began) > refusalTime && which(p.owner, p.target) {
		c.reset()
	}
}
