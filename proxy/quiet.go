package proxy

import (
	"net"
	"slices"
	"time"
)

// quietFor is how long nothing moves in a raw tunnel before a drain closes it.
const quietFor = 250 * time.Millisecond

// drain closes raw tunnels one by one as they fall quiet, until closeAll.
func (t *tunnels) drain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.draining {
		return
	}
	t.draining = true
	go t.closeQuiet()
}

func (t *tunnels) closeQuiet() {
	tick := time.NewTicker(quietFor / 5)
	defer tick.Stop()
	for {
		select {
		case <-t.stop:
			return
		case <-tick.C:
			now := t.now()
			t.end(func(p *place) bool {
				quiet := p.spliced && !p.parts && now-p.moved.Load() > int64(quietFor)
				p.parts = p.parts || quiet
				return quiet
			}, t.part)
		}
	}
}

// part ends a raw tunnel with TLS's goodbye, for which nobody else waits. The upstream,
// which was there before the client, ends after it: its end would reset the client.
func (t *tunnels) part(conns []net.Conn) {
	t.parting.Add(1)
	go func() {
		defer t.parting.Add(-1)
		for _, c := range slices.Backward(conns) {
			if own, ok := c.(interface{ end() error }); ok {
				_ = own.end()
			} else {
				_ = c.Close()
			}
		}
	}()
}

// idle returns once no raw tunnel is left and every goodbye is said, or done is closed.
func (t *tunnels) idle(done <-chan struct{}) {
	tick := time.NewTicker(quietFor / 5)
	defer tick.Stop()
	for t.splicing() || t.parting.Load() > 0 {
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

func (t *tunnels) splicing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p := range t.open {
		if p.spliced {
			return true
		}
	}
	return false
}
