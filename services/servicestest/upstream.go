// Package servicestest is an upstream that is hostile by default: it speaks
// HTTP/1.1 by hand over real sockets, with TLS from a CA of its own, and does
// what real servers do on bad days (behaviour.go lists the paths). It keeps the
// raw bytes of every HTTP/1.1 request, so that a test can say what was on the wire.
//
// It is imported by tests only. Start reading at [New].
package servicestest

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"sync"
	"testing"
	"time"
)

// Options choose what the upstream is.
type Options struct {
	Cleartext bool                // http instead of https
	Hosts     []string            // DNS names of the certificate beside 127.0.0.1, ::1 and localhost
	Expired   bool                // the certificate is out of date
	Routes    map[string]Behave   // paths of the test's own; they come before the built-in ones
	TLS       func(c *tls.Config) // last changes to the server's side; may be nil
	H2        func(c net.Conn)    // serves connections that choose HTTP/2, which is offered then; may be nil
	H1        func(c net.Conn)    // serves all others, instead of the paths; of TLS it gets the *tls.Conn; may be nil
	Listener  net.Listener        // where connections come from; nil: loopback
}

// Behave answers one request. It returns false when the connection is to be
// closed.
type Behave func(c *Conn, r *Request) bool

// Upstream is a running server. It is safe for concurrent use.
type Upstream struct {
	Authority string // 127.0.0.1:port
	CA        *x509.Certificate

	o        Options
	listener net.Listener
	key      tls.Certificate

	mu       sync.Mutex
	requests []*Request
	conns    map[net.Conn]struct{}
	opened   int
	received int64
	seen     map[string]int // requests per path
	changed  chan struct{}
	closed   bool
	wait     sync.WaitGroup
}

// New starts an upstream and stops it at the end of the test.
func New(t testing.TB, o Options) *Upstream {
	t.Helper()
	u := &Upstream{o: o, conns: map[net.Conn]struct{}{}, seen: map[string]int{}, changed: make(chan struct{})}
	if err := u.certify(); err != nil {
		t.Fatalf("servicestest: %v", err)
	}
	ln := o.Listener
	if ln == nil {
		var err error
		if ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatalf("servicestest: %v", err)
		}
	}
	u.Authority, u.listener = ln.Addr().String(), ln
	u.wait.Add(1)
	go u.accept()
	t.Cleanup(u.Close)
	return u
}

// Roots returns a pool with the upstream's CA.
func (u *Upstream) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(u.CA)
	return pool
}

// CAPEM returns the upstream's CA in PEM.
func (u *Upstream) CAPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: u.CA.Raw})
}

// URL returns the upstream's scheme and authority with a path.
func (u *Upstream) URL(path string) string {
	if u.o.Cleartext {
		return "http://" + u.Authority + path
	}
	return "https://" + u.Authority + path
}

// Close stops the upstream and closes its connections. It may be called again.
func (u *Upstream) Close() {
	u.mu.Lock()
	u.closed = true
	_ = u.listener.Close()
	for c := range u.conns {
		_ = c.Close()
	}
	u.mu.Unlock()
	u.wait.Wait()
}

// Requests returns the requests whose heads have come so far. A body that is
// still coming is not in them.
func (u *Upstream) Requests() []Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := make([]Request, len(u.requests))
	for i, r := range u.requests {
		out[i] = *r
	}
	return out
}

// Last returns the last request; the test fails when there is none.
func (u *Upstream) Last(t testing.TB) Request {
	t.Helper()
	all := u.Requests()
	if len(all) == 0 {
		t.Fatal("servicestest: the upstream saw no request")
	}
	return all[len(all)-1]
}

// Await waits until ok holds for the requests so far.
func (u *Upstream) Await(t testing.TB, ok func([]Request) bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		u.mu.Lock()
		changed := u.changed
		u.mu.Unlock()
		if ok(u.Requests()) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatal("servicestest: waited 10 s for what did not come")
		}
	}
}

// AwaitEnds waits until all connections have ended, so that nothing can come any more.
func (u *Upstream) AwaitEnds(t testing.TB) {
	t.Helper()
	u.Await(t, func([]Request) bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return len(u.conns) == 0
	})
}

// Connections returns how many connections were opened.
func (u *Upstream) Connections() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.opened
}

// Received returns how many bytes have come on all connections, after TLS.
func (u *Upstream) Received() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.received
}

// counter counts what is read from a connection.
type counter struct {
	net.Conn
	up *Upstream
}

// Read implements [io.Reader].
func (c counter) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.up.mu.Lock()
	c.up.received += int64(n)
	c.up.mu.Unlock()
	return n, err
}

func (u *Upstream) note(change func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	change()
	close(u.changed)
	u.changed = make(chan struct{})
}

func (u *Upstream) accept() {
	defer u.wait.Done()
	for {
		raw, err := u.listener.Accept()
		if err != nil {
			return
		}
		u.mu.Lock()
		if u.closed {
			u.mu.Unlock()
			_ = raw.Close()
			return
		}
		u.opened++
		n := u.opened
		u.conns[raw] = struct{}{}
		u.wait.Add(1)
		u.mu.Unlock()
		go u.serve(raw, n)
	}
}

func (u *Upstream) serve(raw net.Conn, n int) {
	defer u.wait.Done()
	c := &Conn{Conn: raw, raw: raw, n: n, up: u}
	defer func() {
		_ = c.Close()
		u.note(func() { delete(u.conns, raw) })
	}()
	if !u.o.Cleartext {
		cfg := &tls.Config{Certificates: []tls.Certificate{u.key}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
		if u.o.H2 != nil {
			cfg.NextProtos = []string{"h2", "http/1.1"}
		}
		if u.o.TLS != nil {
			u.o.TLS(cfg)
		}
		secured := tls.Server(raw, cfg)
		if secured.Handshake() != nil {
			return
		}
		c.Conn = secured
		if secured.ConnectionState().NegotiatedProtocol == "h2" {
			u.o.H2(secured)
			return
		}
	}
	if u.o.H1 != nil {
		u.o.H1(c.Conn)
		return
	}
	c.r = bufio.NewReader(counter{c.Conn, u})
	for c.next() {
	}
}
