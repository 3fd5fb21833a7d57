package proxy

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(runtimetest.Settled{M: bothEngines{m}}) }

// engine is the one under test: every test runs under both.
var engine Engine

type bothEngines struct{ m *testing.M }

// waiting is how many of the parallel tests run at a time, unless the command says it: what
// they do is wait for limits of time, each at a proxy of its own.
const waiting = "8"

func (b bothEngines) Run() int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", waiting)
	}
	for _, engine = range []Engine{EngineStd, EngineRelay} {
		if code := b.m.Run(); code != 0 {
			fmt.Println("with engine", engine)
			return code
		}
	}
	return 0
}

const goodToken = runtime.TokenPrefix + "good"

// goodOrigins are those of the service in the table.
var goodOrigins = []string{"https://api.good.test:443", "http://plain.good.test:80"}

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// rig is a proxy on a real socket with the real pipeline behind it and small
// stages that the test can see into.
type rig struct {
	t      *testing.T
	server *Server
	addr   string
	reach  func() (net.Conn, error) // nil: by addr
	stages *stages
	roots  *x509.CertPool
}

// always is for an option that is asked each time.
func always() bool { return true }

// newRig starts a proxy. change may edit the options before New.
func newRig(t *testing.T, change func(*Options, *stages)) *rig {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newRigOn(t, ln, nil, change)
}

func newRigOn(t *testing.T, ln net.Listener, reach func() (net.Conn, error), change func(*Options, *stages)) *rig {
	t.Helper()
	st := &stages{
		upstreams: map[string]string{},
		deny:      map[runtime.Ref]bool{runtime.ActionTunnel: true, "good.denied": true},
		outcomes:  make(chan runtime.Record, 10000),
	}
	st.own(t, goodOrigins...)
	tunnelBackend, err := NewTunnel(TunnelOptions{Dialer: st, Peek: time.Second}) // machines are slow at times
	if err != nil {
		t.Fatal(err)
	}
	pipeline, err := runtime.New(runtime.Options{
		Identity: st, Services: st, Policy: st, Limits: st, Approvals: st, Vault: st, Trail: st,
		Backends: map[string]runtime.Backend{"rest": st, "tunnel": tunnelBackend},
		Clock:    time.Now, NewID: func() string { return runtime.NewID("req", time.Now()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ca := newTestCA(t)
	o := Options{
		Pipeline: pipeline, Identity: st, Table: st.current, Leaf: ca.leaf,
		RootPEM: func() []byte { return []byte("PEM") },
		Limits:  Limits{DrainTimeout: 5 * time.Second},
		Engine:  engine,
	}
	if change != nil {
		change(&o, st)
	}
	server, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	runtimetest.Eventually(t, "the proxy serves", func() bool { return server.Addr() != nil }) // a test may be over before
	return &rig{t: t, server: server, addr: ln.Addr().String(), reach: reach, stages: st, roots: ca.roots}
}

// upstream puts a server at authority that gives every connection to serve, and
// returns the bytes it has received so far.
func (r *rig) upstream(authority string, serve func(c net.Conn, br *bufio.Reader)) (received func() string) {
	r.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	var (
		mu   sync.Mutex
		seen strings.Builder
		wg   sync.WaitGroup
	)
	r.stages.mu.Lock()
	r.stages.upstreams[authority] = ln.Addr().String()
	r.stages.mu.Unlock()
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				_ = c.SetDeadline(time.Now().Add(2 * patience))
				serve(c, bufio.NewReader(io.TeeReader(c, &lockedWriter{&mu, &seen})))
			})
		}
	})
	r.t.Cleanup(func() { _ = ln.Close(); wg.Wait() })
	return func() string { mu.Lock(); defer mu.Unlock(); return seen.String() }
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// answering serves one request per connection with a fixed raw answer.
func answering(answer string) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, br *bufio.Reader) {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(c, answer)
	}
}

// dial opens a connection to the proxy.
func (r *rig) dial() *client {
	r.t.Helper()
	reach := r.reach
	if reach == nil {
		reach = func() (net.Conn, error) { return net.Dial("tcp", r.addr) } // which a test may have changed
	}
	c, err := reach()
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * patience))
	return &client{t: r.t, Conn: c, br: bufio.NewReader(c)}
}

// open makes an intercepted tunnel and speaks TLS in it.
func (r *rig) open(authority string, fields ...string) *client {
	r.t.Helper()
	c := r.dial()
	c.send("CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n" + strings.Join(append(fields, ""), "\r\n") + "\r\n")
	if resp := c.answer("CONNECT"); resp.StatusCode != http.StatusOK {
		r.t.Fatalf("CONNECT %s: %s", authority, resp.Status)
	}
	host, _, _ := net.SplitHostPort(authority)
	return c.tls(&tls.Config{RootCAs: r.roots, ServerName: strings.TrimSuffix(strings.ToLower(host), ".")})
}

// outcome waits for the next record.
func (r *rig) outcome() runtime.Record {
	r.t.Helper()
	select {
	case rec := <-r.stages.outcomes:
		return rec
	case <-time.After(patience):
		r.t.Fatal("no outcome was recorded")
		return runtime.Record{}
	}
}

// testCA signs leaves for tests.
type testCA struct {
	key   *ecdsa.PrivateKey
	cert  *x509.Certificate
	roots *x509.CertPool
}

func newTestCA(t *testing.T) *testCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test root"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &testCA{key: key, cert: cert, roots: roots}
}

func (ca *testCA) leaf(authority string) (*tls.Certificate, error) {
	host, _, err := net.SplitHostPort(authority)
	if err != nil {
		return nil, fmt.Errorf("leaf: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &ca.key.PublicKey, ca.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: ca.key}, nil
}
