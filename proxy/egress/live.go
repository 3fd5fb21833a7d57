package egress

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Live is the guard in force, exchanged when the configuration changes while connections
// are open. It is safe for concurrent use. A dial that another guard overtakes is judged by
// that one too; what is held open without requests of its own ([Live.Hold]) is judged again
// at each change.
type Live struct {
	current atomic.Pointer[Guard]

	mu   sync.Mutex
	held map[*held]struct{}
}

// held is one connection that is judged again.
type held struct {
	asked   Request
	address string
	way     way
	end     func()
}

// NewLive starts with a guard.
func NewLive(g *Guard) *Live {
	l := &Live{held: map[*held]struct{}{}}
	l.current.Store(g)
	return l
}

// Dial is [Guard.Dial] of the guard in force, when the dial has ended too.
func (l *Live) Dial(ctx context.Context, r Request) (net.Conn, Info, error) {
	for {
		g := l.current.Load()
		conn, info, err := g.Dial(ctx, r)
		now := l.current.Load()
		if err != nil || now == g || now.stands(&held{asked: r, address: info.Address, way: g.wayTo(r.Authority)}) {
			return conn, info, err
		}
		_ = conn.Close()
	}
}

// Swap puts another guard in force, and ends what is held and would not be opened by it
// where it leads.
func (l *Live) Swap(g *Guard) {
	l.current.Store(g)
	var fallen []*held
	l.mu.Lock()
	for h := range l.held {
		if !g.stands(h) {
			fallen = append(fallen, h)
		}
	}
	l.mu.Unlock()
	for _, h := range fallen { // without the lock: an end lets go of what it held
		h.end()
	}
}

// Hold names a connection that was just dialled for r, to address as [Info] has it. End is
// called, once or more, when a guard does not let it be any more, which may be at once:
// another guard may have come since the dial. By which way it was dialled nobody knows then,
// so Hold comes before anything that takes time. Release forgets it.
func (l *Live) Hold(r Request, address string, end func()) (release func()) {
	h := &held{asked: r, address: address, end: end}
	l.mu.Lock()
	l.held[h] = struct{}{}
	g := l.current.Load()
	h.way = g.wayTo(r.Authority)
	l.mu.Unlock()
	if !g.stands(h) {
		end()
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, h)
	}
}

// way is how an authority is reached: where upstream.resolve leads it, or the proxy that
// it goes through. The zero way is by its name.
type way struct {
	to  target
	via target
}

func (g *Guard) wayTo(authority string) (w way) {
	asked, err := parseTarget(authority)
	if err != nil {
		return w
	}
	if to, mapped := g.resolve[asked.String()]; mapped {
		w.to = to
	} else if g.via.covers(asked) {
		w.via = g.via.to
	}
	return w
}

// stands reports whether a connection might be opened to where it leads, the same way.
// Nothing is resolved: its address is what its name meant.
func (g *Guard) stands(h *held) bool {
	asked, err := parseTarget(h.asked.Authority)
	if err != nil || h.way != g.wayTo(h.asked.Authority) {
		return false
	}
	if h.way.via != (target{}) {
		_, err := g.words(asked, h.asked)
		return err == nil
	}
	at, err := netip.ParseAddrPort(h.address)
	if err != nil {
		return false
	}
	to := asked
	if h.way.to != (target{}) {
		to = h.way.to
	}
	if to.port != at.Port() || to.addr.IsValid() && to.addr.Unmap() != at.Addr().Unmap() {
		return false // it was opened under another guard, and leads elsewhere
	}
	_, err = g.judge(asked, to.port, []netip.Addr{at.Addr()}, h.asked.grant(asked, h.way.to))
	return err == nil
}
