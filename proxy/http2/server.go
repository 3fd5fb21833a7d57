package http2

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// Options of a [Server]. All of them are wanted, but Blame and Broke.
type Options struct {
	// Handler answers a stream. It runs on a goroutine of its own, and the stream ends
	// when it returns: reset, if the answer had no end.
	Handler func(*Stream)
	// Go runs a handler beside the caller. The same goroutine may run others later.
	Go func(func())
	// Blame makes of [ErrStream], [ErrFlood], [ErrStalled] or [ErrTooLarge] the cause that
	// the contexts of streams end with; nil: those errors are.
	Blame func(error) error
	// Broke is told of a panic over the frames of a connection, which ends it and no other;
	// nil: nobody is.
	Broke func(p any)

	Streams      int   // open at a time on a connection; more are refused
	StreamWindow int32 // bytes of one body that wait to be read
	ConnWindow   int32 // the same of all bodies of a connection
	HeadBytes    int   // of a field list as RFC 9113 section 6.5.2 counts; a head above it is TooLarge

	IdleTimeout time.Duration // of a connection without streams, and of a read or write that does not move, but of a read beside an answer of 2xx, or of who [Stream.Listens]
	HeadTimeout time.Duration // from the first byte of a head to its last, and of the preface
	QuietTime   time.Duration // that a client which still sends when it is answered may say nothing; 0: half a second
}

func (o *Options) check() error {
	switch {
	case o.Handler == nil || o.Go == nil:
		return errors.New("http2: a handler and goroutines are wanted")
	case o.Streams <= 0 || o.HeadBytes <= 0 || o.IdleTimeout <= 0 || o.HeadTimeout <= 0:
		return errors.New("http2: limits are wanted")
	case o.StreamWindow < firstWindow || o.ConnWindow < firstWindow:
		return errors.New("http2: windows are at least 65,535 bytes")
	}
	return nil
}

// Server serves connections. It is safe for concurrent use.
type Server struct {
	o    Options
	bufs sync.Pool // of *[]byte: what is written at once
	data sync.Pool // of *[dataChunk]byte

	mu       sync.Mutex
	draining bool
	conns    map[*conn]struct{}
}

// New makes a Server.
func New(o Options) (*Server, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return &Server{o: o, conns: map[*conn]struct{}{}}, nil
}

// Serve serves one connection, which it owns and closes, until it ends and all handlers
// of its streams have returned. Streams have the values of ctx, and end with it. A write
// on nc that does not move for long must fail by itself.
func (s *Server) Serve(ctx context.Context, nc net.Conn) {
	c := s.newConn(ctx, nc)
	s.mu.Lock()
	s.conns[c] = struct{}{}
	draining := s.draining
	s.mu.Unlock()
	if draining {
		c.goAway(codeNone)
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	c.run()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	c.handlers.Wait()
}

// Drain tells every client to open no more streams. Those that are open go on.
func (s *Server) Drain() {
	s.mu.Lock()
	s.draining = true
	all := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		c.goAway(codeNone)
	}
}

// CloseQuiet closes the connections that have had no stream for d, and whose last answer
// has left, and reports whether there were any connections.
func (s *Server) CloseQuiet(d time.Duration) bool {
	s.mu.Lock()
	left := len(s.conns)
	var quiet []*conn
	for c := range s.conns {
		if c.quiet(d) {
			quiet = append(quiet, c)
		}
	}
	s.mu.Unlock()
	for _, c := range quiet {
		_ = c.Close()
	}
	return left > 0
}
