package socket

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// Bounds are those of the connections of one listener.
type Bounds struct {
	Most     int           // at a time
	Patience time.Duration // with who does not take a piece of what is written
	Clock    func() time.Time
}

// settled is how long a connection stays at least, while no known caller uses it: time
// for a handshake and the head of a request, also from far away.
const settled = time.Second

// bounded is a listener whose connections have so many places. Where there is none left
// the one gives way that no known caller has used for longest: who shows no token keeps
// nobody out. Nor does who shows one: three quarters of the places are one caller's share.
type bounded struct {
	net.Listener
	Bounds

	mu   sync.Mutex
	all  map[*Conn]struct{}
	room chan struct{} // of one: there may be a place

	once   sync.Once
	closed chan struct{}
}

// Bounded bounds the connections of a listener. Those that a server uses which [Watch] was
// told of give way to others while none of them is kept ([Keep]); where all are, the next
// one waits, and those behind it in the kernel's queue.
func Bounded(ln net.Listener, b Bounds) net.Listener {
	return &bounded{Listener: ln, Bounds: b, all: map[*Conn]struct{}{}, room: make(chan struct{}, 1), closed: make(chan struct{})}
}

// Accept implements [net.Listener].
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &Conn{Conn: conn, of: b, source: sourceOf(conn)}
		in, wait := b.admit(c)
		for !in && wait > 0 {
			select {
			case <-b.room:
			case <-time.After(wait):
			case <-b.closed:
				_ = conn.Close()
				return nil, net.ErrClosed
			}
			in, wait = b.admit(c)
		}
		if in {
			return c, nil
		}
		_ = conn.Close()
	}
}

// Close implements [net.Listener].
func (b *bounded) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

// admit gives a connection a place, or says how long to wait for one. It waits not at
// all, and is closed, when its source has three quarters of the places with connections
// that no known caller uses: then one source that connects on and on neither takes all
// nor stands before others in the queue.
func (b *bounded) admit(c *Conn) (in bool, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, silent := b.Clock(), 0
	var oldest, own *Conn
	for one := range b.all {
		if one.silent.IsZero() {
			continue
		}
		if one.silent.After(now) { // the clock went back
			one.silent = now
		}
		if oldest == nil || one.silent.Before(oldest.silent) {
			oldest = one
		}
		if one.source != c.source {
			continue
		}
		if silent++; own == nil || one.silent.Before(own.silent) {
			own = one
		}
	}
	crowded := c.source.IsValid() && silent >= b.share()
	if crowded {
		oldest = own
	}
	if crowded || len(b.all) >= b.Most {
		ripe := oldest != nil && now.Sub(oldest.silent) >= settled
		if one := b.greedy(); !crowded && !ripe && one != nil {
			oldest, ripe = one, true
		}
		switch {
		case ripe:
			delete(b.all, oldest)
			_ = oldest.cut()
		case crowded:
			return false, 0
		case oldest != nil:
			return false, max(1, settled-now.Sub(oldest.silent))
		default:
			return false, settled
		}
	}
	c.silent = now
	b.all[c] = struct{}{}
	return true, 0
}

// share is how many places one caller may have, and one source.
func (b *bounded) share() int { return max(1, b.Most*3/4) }

// greedy is the longest silent connection of a caller that has more than its share, nil
// where there is none: by asking now and then on each it would have them for ever. The lock
// is held.
func (b *bounded) greedy() (oldest *Conn) {
	has := map[string]int{}
	for one := range b.all {
		has[one.owner]++
	}
	for one := range b.all {
		if one.owner == "" || has[one.owner] <= b.share() || one.silent.IsZero() {
			continue
		}
		if oldest == nil || one.silent.Before(oldest.silent) {
			oldest = one
		}
	}
	return oldest
}

// sourceOf is whose share a connection counts for: an address, of IPv6 the network that
// one visitor has. On this machine all have the same one, so there is no share.
func sourceOf(conn net.Conn) netip.Prefix {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	ip := at.Addr().Unmap().WithZone("")
	if err != nil || ip.IsLoopback() {
		return netip.Prefix{}
	}
	one, _ := ip.Prefix(min(ip.BitLen(), 64))
	return one
}

// changed is told of a connection that it left its place, or waits for a request.
func (b *bounded) changed(f func()) {
	b.mu.Lock()
	f()
	b.mu.Unlock()
	select {
	case b.room <- struct{}{}:
	default:
	}
}
