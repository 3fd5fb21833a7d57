package proxy

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// quietFor is how long nothing moves in a raw tunnel before a drain closes it.
const quietFor = 250 * time.Millisecond

// tunnels knows every open tunnel, so that they can be counted and closed.
type tunnels struct {
	limits Limits

	mu       sync.Mutex
	open     map[*place]struct{}
	owners   map[string]int
	draining bool
	stop     chan struct{}
	closed   bool
}

// place is one tunnel's place among them.
type place struct {
	of       *tunnels
	caller   runtime.Caller
	who      runtime.Principal // as whom the caller was identified
	owner    string
	judged   *judged    // what let raw bytes pass, or is about to
	spliced  bool       // raw bytes pass, without requests of their own
	upgraded bool       // so they do after an upgrade
	conns    []net.Conn // to close with it
	moved    atomic.Int64
	freed    bool
	doomed   bool // judged fell before raw bytes passed: closes when they would
}

func newTunnels(limits Limits) *tunnels {
	return &tunnels{
		limits: limits, open: map[*place]struct{}{}, owners: map[string]int{}, stop: make(chan struct{}),
	}
}

// enter takes a place for a tunnel of the caller, identified as who, or says
// why there is none.
func (t *tunnels) enter(caller runtime.Caller, who runtime.Principal) (*place, *runtime.Error) {
	owner := string(who.Tenant) + "/" + who.ID
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.open) >= t.limits.Tunnels {
		return nil, full("the proxy has as many tunnels open as it may", "close connections that are not used, or raise proxy.limits.tunnels")
	}
	if t.owners[owner] >= t.limits.PerPrincipal {
		return nil, full("this principal has as many tunnels open as it may", "close connections that are not used, or raise proxy.limits.per_principal")
	}
	p := &place{of: t, caller: caller, who: who, owner: owner}
	t.open[p] = struct{}{}
	t.owners[owner]++
	return p, nil
}

func full(msg, hint string) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeRateLimited, Reason: runtime.ReasonTooManyConnections, Stage: runtime.StageSurface,
		Msg: msg, Hint: hint, RetryAfter: time.Second,
	}
}

// leave gives the place back. It may be called again.
func (p *place) leave() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.freed {
		return
	}
	p.freed = true
	delete(p.of.open, p)
	if p.of.owners[p.owner]--; p.of.owners[p.owner] == 0 {
		delete(p.of.owners, p.owner)
	}
}

// hold names a connection that closes with the tunnel. After the end of all
// tunnels it is closed at once.
func (p *place) hold(c net.Conn) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.of.closed {
		_ = c.Close()
	}
	p.conns = append(p.conns, c)
}

// splice says that raw bytes pass from now on.
func (p *place) splice() {
	p.touch()
	p.become(&p.spliced)
}

// upgrade says that a request inside was the last: the connection is upgraded.
func (p *place) upgrade() { p.become(&p.upgraded) }

// become sets one of the two, and closes a tunnel that a reload has denied
// since it was judged.
func (p *place) become(open *bool) {
	p.of.mu.Lock()
	*open = true
	var conns []net.Conn
	if p.doomed {
		conns = p.conns
	}
	p.of.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// touch says that bytes have moved.
func (p *place) touch() { p.moved.Store(time.Now().UnixNano()) }

// callers returns one caller for each owner of a tunnel.
func (t *tunnels) callers() map[string]runtime.Caller {
	t.mu.Lock()
	defer t.mu.Unlock()
	callers := make(map[string]runtime.Caller, len(t.owners))
	for p := range t.open {
		callers[p.owner] = p.caller
	}
	return callers
}

// closeAll closes every tunnel and all that are yet to come.
func (t *tunnels) closeAll() {
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		close(t.stop)
	}
	t.mu.Unlock()
	t.closeThose(func(*place) bool { return true })
}

func (t *tunnels) closeThose(which func(*place) bool) {
	var conns []net.Conn
	t.mu.Lock()
	for p := range t.open {
		if which(p) {
			conns = append(conns, p.conns...)
		}
	}
	t.mu.Unlock()
	for _, c := range conns { // outside the lock: closing gives places back
		_ = c.Close()
	}
}

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
		case now := <-tick.C:
			t.closeThose(func(p *place) bool {
				return p.spliced && now.UnixNano()-p.moved.Load() > int64(quietFor)
			})
		}
	}
}

// idle returns once no raw tunnel is left or done is closed.
func (t *tunnels) idle(done <-chan struct{}) {
	tick := time.NewTicker(quietFor / 5)
	defer tick.Stop()
	for t.splicing() {
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
