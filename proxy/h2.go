//lint:file-ignore SA1019 net/http serves only what its own listener accepts; these connections come out of tunnels

package proxy

import (
	"context"
	"crypto/tls"
	"log"
	"net/http"
	goruntime "runtime"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// Protocols that TLS negotiates inside a tunnel (RFC 7301, RFC 9113 section 3.2).
const (
	protocolH2 = "h2"
	protocolH1 = "http/1.1"
)

// Bounds of one HTTP/2 connection of a client.
const (
	maxStreams   = 250       // open at a time; more are reset
	streamWindow = 256 << 10 // bytes of one request body that wait to be read: a principal may have a thousand such requests
	connWindow   = 8 << 20   // the same of all bodies of a connection
	frameSize    = 16 << 10  // of a frame from the client, the least that may be asked for
)

// multiplex serves the tunnels in which the client speaks HTTP/2. Framing, flow
// control and the bounds on resets, control frames and CONTINUATION are those
// of golang.org/x/net/http2; what a stream asks for is checked by us, stream by
// stream, and takes the way of every other request.
type multiplex struct {
	server *http2.Server
	base   *http.Server // limits, log and shutdown of server; it accepts nothing
	idle   time.Duration

	mu    sync.Mutex
	conns map[*h2conn]struct{}
}

// newMultiplex makes a multiplex that gives each stream to handler.
func newMultiplex(limits Limits, complaints *log.Logger, handler http.HandlerFunc) (*multiplex, error) {
	m := &multiplex{
		server: &http2.Server{
			MaxConcurrentStreams:         maxStreams,
			IdleTimeout:                  limits.IdleTimeout,
			WriteByteTimeout:             limits.IdleTimeout,
			MaxReadFrameSize:             frameSize,
			MaxUploadBufferPerStream:     streamWindow,
			MaxUploadBufferPerConnection: connWindow,
		},
		// Twice our own limit: what lies between is answered, and recorded, by us;
		// what lies above is cut off by the framing.
		base:  &http.Server{Handler: handler, MaxHeaderBytes: 2 * limits.HeaderBytes, ErrorLog: complaints, ReadHeaderTimeout: limits.HeadTimeout},
		idle:  limits.IdleTimeout,
		conns: map[*h2conn]struct{}{},
	}
	return m, http2.ConfigureServer(m.base, m.server)
}

// serve serves one connection until it ends. Requests have the values of ctx.
func (m *multiplex) serve(ctx context.Context, c *h2conn) {
	m.mu.Lock()
	m.conns[c] = struct{}{}
	m.mu.Unlock()
	defer func() {
		_ = c.Close()
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.conns, c)
	}()
	m.server.ServeConn(c, &http2.ServeConnOpts{Context: context.WithValue(ctx, connKey{}, c), BaseConfig: m.base})
}

// drain tells every client to open no more streams (GOAWAY).
func (m *multiplex) drain(ctx context.Context) { _ = m.base.Shutdown(ctx) }

// settled closes the connections that have had no stream for quietFor, and
// returns once none is left, or the error of ctx when that ends first.
func (m *multiplex) settled(ctx context.Context) error {
	tick := time.NewTicker(quietFor / 5)
	defer tick.Stop()
	for m.closeQuiet() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// closeQuiet reports whether there were connections.
func (m *multiplex) closeQuiet() bool {
	var quiet []*h2conn
	m.mu.Lock()
	left := len(m.conns)
	for c := range m.conns {
		if c.quiet() {
			quiet = append(quiet, c)
		}
	}
	m.mu.Unlock()
	for _, c := range quiet {
		_ = c.Close()
	}
	return left > 0
}

// h2conn is a connection that a client speaks HTTP/2 on.
type h2conn struct {
	*conn
	state    tls.ConnectionState
	idle     time.Duration
	headTime time.Duration
	frames   frames // of the reading goroutine

	mu      sync.Mutex
	streams map[*h2stream]struct{}
	watch   *time.Timer // runs while there are streams
	changed time.Time   // when a stream came or went
}

// ConnectionState says what TLS negotiated; the scheme of a stream is checked
// against it.
func (c *h2conn) ConnectionState() tls.ConnectionState { return c.state }

// Read implements [net.Conn]. A head has its time from its beginning to its end, in however
// many frames and pieces it comes, and so have the frames of the connection itself.
func (c *h2conn) Read(p []byte) (int, error) {
	c.frames.limit(c.headTime, c.conn.SetReadDeadline)
	n, err := c.conn.Read(p)
	c.frames.advance(p[:n])
	return n, err
}

// Write implements [net.Conn]. Where several streams are open it lets the
// goroutines that are ready to run go first: while it writes,
// golang.org/x/net/http2 gathers the frames of all of them for the next write.
// Without it most frames are a record of TLS and a system call of their own.
func (c *h2conn) Write(p []byte) (int, error) {
	if c.crowded() {
		goruntime.Gosched()
	}
	return c.conn.Write(p)
}

// crowded reports whether several streams are open.
func (c *h2conn) crowded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.streams) > 1
}

// enter counts a stream until leave.
func (c *h2conn) enter(st *h2stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[st] = struct{}{}
	c.changed = time.Now()
	if len(c.streams) > 1 {
		return
	}
	if c.watch == nil {
		c.watch = time.AfterFunc(c.idle/8, c.sweep)
	} else {
		c.watch.Reset(c.idle / 8)
	}
}

func (c *h2conn) leave(st *h2stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.streams, st)
	c.changed = time.Now()
	if len(c.streams) == 0 {
		c.watch.Stop()
	}
}

// sweep ends the streams in which a read or a write has not moved for the idle
// timeout. One timer for the connection: a deadline per read and write would
// cost two messages to the serving goroutine each time.
func (c *h2conn) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	latest := time.Now().Add(-c.idle)
	for st := range c.streams {
		st.expire(latest)
	}
	if len(c.streams) > 0 {
		c.watch.Reset(c.idle / 8)
	}
}

// overdue ends the reading of a stream whose body has taken too long.
func (c *h2conn) overdue(st *h2stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, open := c.streams[st]; open { // its writer is gone once the handler has left
		_ = st.control.SetReadDeadline(time.Unix(1, 0))
	}
}

// quiet reports whether no stream has been there for quietFor.
func (c *h2conn) quiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.streams) == 0 && time.Since(c.changed) > quietFor
}

// multiplexed returns the connection as one of HTTP/2, if that was negotiated.
func (s *Server) multiplexed(c *conn) (*h2conn, bool) {
	secured, ok := c.Conn.(*tls.Conn)
	if !ok {
		return nil, false
	}
	state := secured.ConnectionState()
	if state.NegotiatedProtocol != protocolH2 {
		return nil, false
	}
	c.guard = nil // it reads HTTP/1.1
	return &h2conn{
		conn: c, state: state, idle: s.o.Limits.IdleTimeout, headTime: s.o.Limits.HeadTimeout, frames: newFrames(),
		streams: map[*h2stream]struct{}{}, changed: time.Now(),
	}, true
}
