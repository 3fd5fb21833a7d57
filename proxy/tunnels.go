package proxy

import (
	"context"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/proxy/gate"
	"github.com/kimbap-run/kimbap/runtime"
)

// refusalTime is more than it takes to refuse a request: one that has been inside
// longer was let through.
const refusalTime = 500 * time.Millisecond

// Descriptors that a tunnel needs: the client's connection, and if it is raw the
// upstream's. In an intercepted one upstream connections belong to requests.
const (
	intercepted = 1
	raw         = 2
)

// tunnels knows every open tunnel, so that they can be counted and closed.
type tunnels struct {
	limits Limits
	clock  func() time.Time
	seats  *gate.Gate[string] // one for each tunnel
	files  *gate.Gate[string] // descriptors: one for an intercepted tunnel, two for a raw one

	parting atomic.Int32 // connections, tunnels or not, that a drain closes and are told goodbye

	mu       sync.Mutex
	open     map[*place]struct{}
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
	files    int64
	judged   *judged      // what let raw bytes pass, or is about to
	spliced  bool         // raw bytes pass, without requests of their own
	upgraded bool         // so they do after an upgrade
	served   atomic.Bool  // a request inside was one of a service
	conns    []net.Conn   // to close with it
	moved    atomic.Int64 // when bytes passed last, or a request ended; of system.Moment
	running  atomic.Int32 // requests inside; below zero: it closes to make room
	began    atomic.Int64 // when the first of those inside began; of system.Moment
	freed    bool
	parts    bool // it is quiet, and a drain ends it
	doomed   bool // judged fell before raw bytes passed: closes when they would
}

func newTunnels(l Limits) *tunnels {
	share := max(1, int64(l.TunnelFiles)*3/4) // nobody has all descriptors
	return &tunnels{
		limits: l, clock: time.Now, open: map[*place]struct{}{}, stop: make(chan struct{}),
		seats: gate.New(gate.PerOwner(int64(l.PerPrincipal)), int64(l.Tunnels), l.Queue, 4*l.Queue),
		files: gate.New(gate.PerOwner(share), int64(l.TunnelFiles), l.Queue, 4*l.Queue),
	}
}

// now is the time as places hold it.
func (t *tunnels) now() int64 { return system.Moment(t.clock()) }

// enter takes a place for a tunnel of the caller, identified as who, that needs
// so many descriptors. It waits for one, and meanwhile closes tunnels of the
// same principal in which nothing goes on; the error says why there is none.
func (t *tunnels) enter(ctx context.Context, caller runtime.Caller, who runtime.Principal, files int64) (*place, *runtime.Error) {
	owner, until := who.Owner(), t.limits.until()
	room := func(gate.Lack) { t.closeResting(owner) }
	if why := t.seats.Enter(ctx, owner, 1, until, room); why != gate.None {
		return nil, scarce{
			what: "tunnels open", reason: runtime.ReasonTooManyConnections, hint: "close connections that are not used",
			own: bound{"per_principal", t.limits.Lowered.PerPrincipal}, total: bound{"tunnels", t.limits.Lowered.Tunnels},
		}.refuse(why)
	}
	if why := t.files.Enter(ctx, owner, files, until, room); why != gate.None {
		t.seats.Leave(owner, 1)
		files := bound{"tunnels", t.limits.Lowered.files}
		return nil, scarce{
			what: "file descriptors in tunnels", reason: runtime.ReasonTooManyConnections, hint: "close connections that are not used",
			own: files, total: files,
		}.refuse(why)
	}
	p := &place{of: t, caller: caller, who: who, owner: owner, files: files}
	p.touch()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open[p] = struct{}{}
	return p, nil
}

// closeResting closes the tunnel of owner that has had no request for longest,
// if that is as long as the limits say. Clients know that a kept connection may
// end between two requests; one with a request in it is never taken.
func (t *tunnels) closeResting(owner string) {
	oldest := t.now() - int64(t.limits.RestTime)
	var found *place
	t.mu.Lock()
	for p := range t.open {
		if p.owner == owner && p.files == intercepted && !p.upgraded && p.running.Load() == 0 && p.moved.Load() < oldest {
			found, oldest = p, p.moved.Load()
		}
	}
	t.mu.Unlock()
	if found != nil && found.running.CompareAndSwap(0, math.MinInt32/2) {
		t.closeThose(func(p *place) bool { return p == found })
	}
}

// begin counts a request in the tunnel until end. False means that the tunnel
// closes, and the request has come too late.
func (p *place) begin() bool {
	inside := p.running.Add(1)
	if inside == 1 {
		p.began.Store(p.of.now())
	}
	return inside > 0
}

// flows reports whether a request has been inside for longer than a refusal takes.
func (p *place) flows() bool {
	return p.running.Load() > 0 && p.of.now()-p.began.Load() > int64(refusalTime)
}

func (p *place) end() {
	p.touch()
	p.running.Add(-1)
}

// leave gives the place back. It may be called again.
func (p *place) leave() {
	p.of.mu.Lock()
	freed := p.freed
	p.freed = true
	delete(p.of.open, p)
	p.of.mu.Unlock()
	if !freed {
		p.of.files.Leave(p.owner, p.files)
		p.of.seats.Leave(p.owner, 1)
	}
}

// hold names a connection that closes with the tunnel. After the end of all
// tunnels, or of this one, it is closed at once.
func (p *place) hold(c net.Conn) {
	p.of.mu.Lock()
	p.conns = append(p.conns, c)
	closed := p.of.closed || p.running.Load() < 0
	p.of.mu.Unlock()
	if closed { // and it leaves, which takes the lock
		cut(c)
	}
}

// sever ends its connections at once, and what was on its way in them looks cut.
func (p *place) sever() {
	p.of.mu.Lock()
	conns := p.conns
	p.of.mu.Unlock()
	reset(conns...)
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
	cutAll(conns)
}

// touch says that bytes have moved.
func (p *place) touch() { p.moved.Store(p.of.now()) }

// callers returns one caller for each owner of a tunnel.
func (t *tunnels) callers() map[string]runtime.Caller {
	t.mu.Lock()
	defer t.mu.Unlock()
	callers := map[string]runtime.Caller{}
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

// closeThose cuts the tunnels that which asks for: one whose client reads nothing would
// keep those behind it open. What is on its way in one must not look complete.
func (t *tunnels) closeThose(which func(*place) bool) {
	var busy []net.Conn
	t.end(func(p *place) bool {
		those := which(p)
		if those && (p.spliced || p.upgraded || p.flows()) {
			busy = append(busy, p.conns...)
			return false
		}
		return those
	}, cutAll)
	reset(busy...)
}

// end ends those that which asks for, outside the lock: ending gives places back.
func (t *tunnels) end(which func(*place) bool, end func(conns []net.Conn)) {
	var those [][]net.Conn
	t.mu.Lock()
	for p := range t.open {
		if which(p) {
			those = append(those, p.conns)
		}
	}
	t.mu.Unlock()
	for _, conns := range those {
		end(conns)
	}
}

func cutAll(conns []net.Conn) {
	for _, c := range conns {
		cut(c)
	}
}
