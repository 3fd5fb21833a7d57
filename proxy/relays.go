package proxy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// relays knows the connections of the relay engine, so that a shutdown can end
// them: those that wait for a request at once, the others after their answer.
type relays struct {
	draining atomic.Bool // set before anything is closed for it

	mu   sync.Mutex
	open map[*relay]struct{}
	gone chan struct{} // closed when the last has left a drain; nil: nobody waits
}

func newRelays() *relays { return &relays{open: map[*relay]struct{}{}} }

// enter notes a connection; false means that there are to be no more.
func (r *relays) enter(one *relay) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining.Load() {
		return false
	}
	r.open[one] = struct{}{}
	return true
}

func (r *relays) leave(one *relay) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, one)
	if len(r.open) == 0 && r.gone != nil {
		close(r.gone)
		r.gone = nil
	}
}

// drain ends the connections as they fall quiet, those that have asked nothing
// yet after quietFor, and returns when none is left or ctx has ended; then it
// closes the rest.
func (r *relays) drain(ctx context.Context) error {
	r.mu.Lock()
	gone := make(chan struct{})
	if len(r.open) == 0 {
		close(gone)
	} else {
		r.gone = gone
	}
	r.mu.Unlock()
	ended := func(c *conn) { _ = c.Close() }
	awaited := func(one *relay) bool { return one.phase.CompareAndSwap(relayAwaited, relayClosed) }
	r.end(func(one *relay) bool { return one.asked.Load() > 0 && awaited(one) }, ended)
	fresh := time.AfterFunc(quietFor, func() { r.end(awaited, ended) })
	defer fresh.Stop()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		r.end(func(*relay) bool { return true }, (*conn).cut)
		return ctx.Err()
	}
}

// end ends those that which asks for, outside the lock: ending gives places back.
func (r *relays) end(which func(*relay) bool, end func(*conn)) {
	var those []*relay
	r.mu.Lock()
	for one := range r.open {
		if which(one) {
			those = append(those, one)
		}
	}
	r.mu.Unlock()
	for _, one := range those {
		end(one.c)
	}
}
