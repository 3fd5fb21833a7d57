package socket

import (
	"context"
	"net"
	"net/http"
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
// nobody out.
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
	crowded := c.source.IsValid() && silent >= max(1, b.Most*3/4)
	if crowded {
		oldest = own
	}
	if crowded || len(b.all) >= b.Most {
		switch {
		case oldest != nil && now.Sub(oldest.silent) >= settled:
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

// Watch makes a server tell its bounded listeners which connections wait for a request.
// It is called before the server serves.
func Watch(s *http.Server) {
	inner := s.ConnContext
	s.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if inner != nil {
			ctx = inner(ctx, conn)
		}
		return context.WithValue(ctx, connKey{}, conn)
	}
	s.ConnState = func(conn net.Conn, state http.ConnState) {
		if c, is := conn.(*Conn); is && state == http.StateIdle {
			c.of.changed(func() { c.silent = c.of.Clock() })
		}
	}
}

// connKey is the key of a connection in its context.
type connKey struct{}

// Keep lets the connection of a request stay until that is answered, since its caller is
// known. It reports whether it is still there: one that gave way must do nothing, as its
// answer would be lost.
func Keep(ctx context.Context) bool {
	c, is := ctx.Value(connKey{}).(*Conn)
	if !is {
		return true
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	_, there := c.of.all[c]
	c.silent = time.Time{}
	return there
}
