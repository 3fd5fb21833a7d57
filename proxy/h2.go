package proxy

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/kimbap-run/kimbap/proxy/http2"
)

// Protocols that TLS negotiates inside a tunnel (RFC 7301, RFC 9113 section 3.2).
const (
	protocolH2 = "h2"
	protocolH1 = "http/1.1"
)

// Bounds of one HTTP/2 connection of a client.
const (
	maxStreams   = 250       // open at a time; more are refused
	streamWindow = 256 << 10 // bytes of one request body that wait to be read: a principal may have a thousand such requests
	connWindow   = 8 << 20   // the same of all bodies of a connection
)

// newHTTP2 makes what serves the tunnels in which the client speaks HTTP/2. What a stream
// asks for is checked by us, stream by stream, and takes the way of every other request.
func (s *Server) newHTTP2() (*http2.Server, error) {
	return http2.New(http2.Options{
		Handler: s.serveStream, Go: s.crew.do, Blame: blameStream,
		Broke:   func(p any) { s.broke("between the frames of a connection", p) },
		Streams: maxStreams, StreamWindow: streamWindow, ConnWindow: connWindow,
		HeadBytes:   2 * s.o.Limits.HeaderBytes, // what lies between counts lines otherwise than we do
		IdleTimeout: s.o.Limits.IdleTimeout, HeadTimeout: s.o.Limits.HeadTimeout,
	})
}

// settled closes the connections of HTTP/2 that have had no stream for quietFor, and
// returns once none is left, or the error of ctx when that ends first.
func (s *Server) settled(ctx context.Context) error {
	tick := time.NewTicker(quietFor / 5)
	defer tick.Stop()
	for s.h2.CloseQuiet(quietFor) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// h2conn is a connection that a client speaks HTTP/2 on.
type h2conn struct {
	*conn
	s      *Server
	inside *interior // below its TLS, where writes get their time
}

// Write implements [net.Conn]. What is several records leaves with one system call.
func (c *h2conn) Write(p []byte) (int, error) {
	if len(p) <= record {
		return c.Conn.Write(p)
	}
	if err := c.s.together(c.inside, c.Conn, p, nil); err != nil {
		return 0, err
	}
	return len(p), nil
}

// multiplexed returns the connection as one of HTTP/2, if that was negotiated.
func (s *Server) multiplexed(c *conn) (*h2conn, bool) {
	secured, ok := c.Conn.(*tls.Conn)
	if !ok || secured.ConnectionState().NegotiatedProtocol != protocolH2 {
		return nil, false
	}
	inside := insideOf(c)
	if inside == nil {
		return nil, false
	}
	inside.give(s.o.Limits.IdleTimeout)
	c.guard = nil // it reads HTTP/1.1
	return &h2conn{conn: c, s: s, inside: inside}, true
}

// serveHTTP2 serves a connection until it ends.
func (s *Server) serveHTTP2(c *h2conn) {
	s.h2.Serve(context.WithValue(s.base, connKey{}, c.conn), c)
}
