package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// tunnel is what the CONNECT said that a connection is inside of.
type tunnel struct {
	scheme    string // "https" after a handshake, "http" when cleartext followed
	authority string
	caller    runtime.Caller // as shown at the CONNECT
	seat      *place
}

// conn is a connection that a client speaks HTTP on: one of the listener, or
// what is inside an intercepted CONNECT.
type conn struct {
	net.Conn          // the bytes: TCP, or TLS inside a tunnel
	raw      net.Conn // the accepted connection below
	guard    *guard   // nil when the bytes are HTTP/2
	peer     runtime.Peer
	source   string          // address that it comes from, without its port
	visitor  visitor         // for whom it counts while it is no tunnel
	known    *runtime.Caller // who is at the other end; nil: each request says it
	tunnel   *tunnel         // nil on the listener's own connections
	plainly  plainly         // what is served on one of those
	leave    func()          // out of the visitors, when it closes or becomes a tunnel; may be nil
	onClose  func()          // may be nil
	broke    func(where string, p any)
	closed   sync.Once
	first    func(error)   // told when the tunnel ends before a byte came; nil once one has
	started  atomic.Bool   // the answer to the request being served has begun
	silent   atomic.Int64  // since when no request is served, of system.Moment; 0 while one is; closing
	head     []byte        // of the request being served, as it came; nil unless Options.KeepHeads
	lingers  atomic.Bool   // it ends with an answer, while its client may still be sending
	uploads  atomic.Bool   // and in the middle of a body that can be read
	ending   *atomic.Bool  // the proxy is
	parting  *atomic.Int32 // [tunnels.parting]
	spurned  bool          // a CONNECT on it has just been refused
}

// closing, in conn.silent, is a connection that is given up for another.
const closing = -1

// wake says that a request has come, rest that it has ended. Not awake is a
// connection that was given up in the meantime.
func (c *conn) wake() (awake bool) { return c.silent.Swap(0) != closing }

// After a refused CONNECT the next one has a second: Node 24's own agent leaves such a
// connection open, and the process does not end before we close it.
func (c *conn) rest() {
	at := system.Moment(time.Now())
	c.silent.Store(at)
	if !c.spurned {
		return
	}
	c.spurned = false
	time.AfterFunc(afterRefusal, func() {
		if c.silent.CompareAndSwap(at, closing) {
			_ = c.Close()
		}
	})
}

// afterRefusal is how long a connection waits for another request after a refused CONNECT.
const afterRefusal = time.Second

// newConn puts a guard before the bytes of c.
func (s *Server) newConn(c, raw net.Conn, peer runtime.Peer, t *tunnel) *conn {
	source, _, _ := net.SplitHostPort(raw.RemoteAddr().String())
	made := &conn{
		Conn: c, raw: raw, peer: peer, source: source, tunnel: t, broke: s.broke, ending: &s.relays.draining,
		guard:   &guard{src: c, deadline: c.SetReadDeadline, limits: &s.o.Limits, spare: &s.scratches, check: checkRouting, keep: s.o.KeepHeads, inside: t != nil},
		parting: &s.tunnels.parting,
	}
	if t == nil {
		made.guard.check = made.checkRouting
	}
	return made
}

// errBroke ends a connection over whose bytes something has panicked.
var errBroke = errors.New("what the client sent cannot be read")

// Read gives checked bytes, of HTTP/2 all. net/http also reads on the side, where a panic
// would end the process.
func (c *conn) Read(p []byte) (n int, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			c.broke("where bytes are read", broken)
			n, err = 0, errBroke
		}
	}()
	if c.guard == nil {
		n, err = c.Conn.Read(p)
	} else {
		n, err = c.guard.Read(p)
	}
	if n > 0 || err != nil {
		c.heard(n, err)
	}
	return n, err
}

// heard is told how each read ended. Only the first one counts.
func (c *conn) heard(n int, err error) {
	if c.first == nil {
		return
	}
	told := c.first
	if c.first = nil; n == 0 {
		told(err)
	}
}

// Close closes the connection and gives its place back, once. When the proxy ends, it
// does not wait for the goodbye of TLS, which may take five seconds where the client reads
// nothing: whoever ends the connections closes one after another.
func (c *conn) Close() error {
	if c.lingers.Swap(false) {
		c.drain()
	}
	if !c.saysGoodbye() || !c.ending.Load() {
		return c.end()
	}
	c.parting.Add(1)
	go func() { defer c.parting.Add(-1); _ = c.end() }()
	return nil
}

// saysGoodbye reports whether there is TLS, in the tunnel or below.
func (c *conn) saysGoodbye() bool {
	_, inside := c.Conn.(*tls.Conn)
	_, lent := c.raw.(*Known)
	return inside || lent
}

func (c *conn) end() error {
	err := c.Conn.Close()
	c.closed.Do(func() {
		if c.leave != nil {
			c.leave()
		}
		if c.onClose != nil {
			c.onClose()
		}
	})
	return err
}

// CloseWrite lets net/http end an answer before it closes, so that the client
// can read it although we have not read all it sent.
func (c *conn) CloseWrite() error { return closeWrite(c.Conn) }

// reset closes the connection such that the client cannot take what it got for
// complete: it sees a reset, not an end.
func (c *conn) reset() { reset(c) }

// reset does that to all of cs. Whoever copies from one of them closes the others, so
// each is made ready before the first is closed.
func reset(cs ...net.Conn) {
	for _, c := range cs {
		if tcp, ok := below(c).(interface{ SetLinger(sec int) error }); ok {
			_ = tcp.SetLinger(0)
		}
	}
	cutAll(cs)
}

// below is the connection that c's bytes go over in the end.
func below(c net.Conn) net.Conn {
	for {
		above, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = above.NetConn()
	}
}

// cut closes c at once: TLS does not say goodbye, which may take it five seconds.
func cut(c net.Conn) {
	if own, ok := c.(interface{ cut() }); ok {
		own.cut()
		return
	}
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok { // an upstream behind a proxy
		_ = secure.NetConn().Close()
	}
	_ = c.Close()
}

// NetConn is the accepted connection, whatever TLS there is above it.
func (c *conn) NetConn() net.Conn { return c.raw }

// cut is that for a client's connection, whatever TLS there is below.
func (c *conn) cut() {
	if lent, ok := c.raw.(*Known); ok {
		lent.abort.Store(true)
	}
	_ = c.raw.Close()
	_ = c.Close()
}

// closeWrite half-closes c where it can, and closes it where it cannot.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// taken is a client's connection after a CONNECT or an upgrade: first the bytes
// that came with the head, then the rest, unchecked.
type taken struct {
	*conn
	prefix []byte
}

// Read implements [io.Reader].
func (t *taken) Read(p []byte) (int, error) {
	if len(t.prefix) == 0 {
		return t.conn.Read(p)
	}
	n := copy(p, t.prefix)
	if t.prefix = t.prefix[n:]; len(t.prefix) == 0 {
		t.prefix = nil
	}
	return n, nil
}

// take hijacks the connection of w. Bytes that net/http has read are kept.
func take(w http.ResponseWriter) (*taken, error) {
	c, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	own, ok := c.(*conn)
	if !ok { // cannot be: all our listeners give *conn
		_ = c.Close()
		return nil, net.ErrClosed
	}
	own.guard.release()
	if own.leave != nil {
		own.leave()
	}
	t := &taken{conn: own}
	if n := buffered.Reader.Buffered(); n > 0 {
		peeked, _ := buffered.Reader.Peek(n)
		t.prefix = append([]byte(nil), peeked...)
	}
	return t, nil
}

// feed is a listener of connections that are already there: the insides of
// tunnels, for the one HTTP server that serves them all.
type feed struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	addr   net.Addr
}

func newFeed() *feed {
	return &feed{conns: make(chan net.Conn), closed: make(chan struct{}), addr: &net.TCPAddr{}}
}

// put hands c to the server; false means that it is closing.
func (f *feed) put(c net.Conn) bool {
	select {
	case f.conns <- c:
		return true
	case <-f.closed:
		return false
	}
}

// Accept implements [net.Listener].
func (f *feed) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (f *feed) Close() error { f.once.Do(func() { close(f.closed) }); return nil }

// Addr implements [net.Listener].
func (f *feed) Addr() net.Addr { return f.addr }

type connKey struct{}

// connOf returns the connection a request came on.
func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}
