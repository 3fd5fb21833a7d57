// Package servicestest is an upstream that is hostile by default: it speaks
// HTTP/1.1 by hand over real sockets, with TLS from a CA of its own, and does
// what real servers do on bad days (behaviour.go lists the paths). It keeps the
// raw bytes of every HTTP/1.1 request, so that a test can say what was on the wire.
//
// It is imported by tests only. Start reading at [New].
package servicestest

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/textproto"
	"strconv"
	"strings"
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
}

// Behave answers one request. It returns false when the connection is to be
// closed.
type Behave func(c *Conn, r *Request) bool

// Request is one request as it was on the wire.
type Request struct {
	Line    string // without CRLF
	Method  string
	Target  string
	Header  textproto.MIMEHeader
	Head    []byte // request line and fields, with the final CRLF CRLF
	Body    []byte // decoded
	RawBody []byte // as on the wire, chunk sizes and trailers included
	Trailer textproto.MIMEHeader
	Conn    int  // which connection it came on, from 1
	Whole   bool // the body was read to its end
}

// Fields returns the values of a field in the raw head under exactly this
// spelling, and how often it is there.
func (r Request) Fields(name string) []string {
	var out []string
	for line := range strings.SplitSeq(string(r.Head), "\r\n") {
		if n, value, ok := strings.Cut(line, ":"); ok && n == name {
			out = append(out, strings.TrimSpace(value))
		}
	}
	return out
}

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

// New starts an upstream on loopback and stops it at the end of the test.
func New(t testing.TB, o Options) *Upstream {
	t.Helper()
	u := &Upstream{o: o, conns: map[net.Conn]struct{}{}, seen: map[string]int{}, changed: make(chan struct{})}
	if err := u.certify(); err != nil {
		t.Fatalf("servicestest: %v", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("servicestest: %v", err)
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
			t.Fatal("servicestest: waited 10 s for requests that did not come")
		}
	}
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
		u.mu.Lock()
		delete(u.conns, raw)
		u.mu.Unlock()
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
	c.r = bufio.NewReader(counter{c.Conn, u})
	for c.next() {
	}
}

// Conn is one connection, for behaviours.
type Conn struct {
	net.Conn
	raw net.Conn
	r   *bufio.Reader
	n   int
	up  *Upstream
}

// Read implements [io.Reader] behind what was read for the head.
func (c *Conn) Read(p []byte) (int, error) { return c.r.Read(p) }

// Send writes text to the client.
func (c *Conn) Send(parts ...string) bool {
	_, err := io.WriteString(c.Conn, strings.Join(parts, ""))
	return err == nil
}

// CloseWrite ends the upstream's half.
func (c *Conn) CloseWrite() {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// Reset closes the connection with a TCP reset.
func (c *Conn) Reset() bool {
	if tcp, ok := c.raw.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.raw.Close()
	return false
}

// next serves one request.
func (c *Conn) next() bool {
	r, err := c.head()
	if err != nil {
		return false
	}
	var times int
	path, _, _ := strings.Cut(r.Target, "?")
	c.up.note(func() {
		c.up.requests = append(c.up.requests, r)
		c.up.seen[path]++
		times = c.up.seen[path]
	})
	b := c.up.o.Routes[path]
	if b == nil {
		b = builtIn(path, times)
	}
	return b(c, r)
}

func (c *Conn) head() (*Request, error) {
	var head bytes.Buffer
	for {
		line, err := c.r.ReadBytes('\n')
		head.Write(line)
		if err != nil {
			return nil, err
		}
		if string(line) == "\r\n" {
			break
		}
		if head.Len() > 1<<20 {
			return nil, errors.New("head too large")
		}
	}
	r := &Request{Head: head.Bytes(), Conn: c.n}
	reader := textproto.NewReader(bufio.NewReader(bytes.NewReader(r.Head)))
	var err error
	if r.Line, err = reader.ReadLine(); err != nil {
		return nil, err
	}
	if r.Header, err = reader.ReadMIMEHeader(); err != nil {
		return nil, err
	}
	words := strings.SplitN(r.Line, " ", 3)
	if len(words) != 3 {
		return nil, errors.New("bad request line")
	}
	r.Method, r.Target = words[0], words[1]
	return r, nil
}

// ReadBody reads the request's body and trailers to their end and records them
// as they come. Behaviours that do not want the body do not call it.
func (c *Conn) ReadBody(r *Request) error {
	var err error
	if strings.EqualFold(r.Header.Get("Transfer-Encoding"), "chunked") {
		err = c.chunks(r)
	} else if n, _ := strconv.Atoi(r.Header.Get("Content-Length")); n > 0 {
		err = c.take(r, n, true)
	}
	c.up.note(func() { r.Whole = err == nil })
	return err
}

// take reads n bytes piece by piece, so that a test sees the first ones early.
func (c *Conn) take(r *Request, n int, data bool) error {
	buf := make([]byte, 32<<10)
	for n > 0 {
		got, err := c.r.Read(buf[:min(n, len(buf))])
		n -= got
		c.up.note(func() {
			r.RawBody = append(r.RawBody, buf[:got]...)
			if data {
				r.Body = append(r.Body, buf[:got]...)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Conn) line(r *Request) (string, error) {
	line, err := c.r.ReadString('\n')
	c.up.note(func() { r.RawBody = append(r.RawBody, line...) })
	return strings.TrimRight(line, "\r\n"), err
}

func (c *Conn) chunks(r *Request) error {
	for {
		text, err := c.line(r)
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(text, 16, 64)
		if err != nil {
			return err
		}
		if size == 0 {
			break
		}
		if err := c.take(r, int(size), true); err != nil {
			return err
		}
		if _, err := c.line(r); err != nil {
			return err
		}
	}
	trailer := textproto.MIMEHeader{}
	for {
		text, err := c.line(r)
		if err != nil {
			return err
		}
		if text == "" {
			c.up.note(func() { r.Trailer = trailer })
			return nil
		}
		name, value, _ := strings.Cut(text, ":")
		trailer.Add(name, strings.TrimSpace(value))
	}
}

// certify makes the CA and the server's certificate.
func (u *Upstream) certify() error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "servicestest CA"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return err
	}
	if u.CA, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "upstream"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		DNSNames:    append([]string{"localhost"}, u.o.Hosts...),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:    x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if u.o.Expired {
		leaf.NotAfter = now.Add(-time.Minute)
	}
	der, err = x509.CreateCertificate(rand.Reader, leaf, u.CA, key.Public(), caKey)
	if err != nil {
		return err
	}
	u.key = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return nil
}
