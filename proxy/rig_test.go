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
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(bothEngines{m}) }

// engine is the one under test: every test runs under both.
var engine Engine

type bothEngines struct{ m *testing.M }

func (b bothEngines) Run() int {
	for _, engine = range []Engine{EngineStd, EngineRelay} {
		if code := b.m.Run(); code != 0 {
			fmt.Println("with engine", engine)
			return code
		}
	}
	return 0
}

const goodToken = tokenPrefix + "good"

// goodOrigins are those of the service in the table.
var goodOrigins = []string{"https://api.good.test:443", "http://plain.good.test:80"}

// patience is how long a test waits for what must come.
const patience = 10 * time.Second

// rig is a proxy on a real socket with the real pipeline behind it and small
// stages that the test can see into.
type rig struct {
	t      *testing.T
	server *Server
	addr   string
	stages *stages
	roots  *x509.CertPool
}

// Take implements [runtime.Limiter]: nothing here has a limit.
func (st *stages) Take(context.Context, []runtime.Limit, time.Time) error { return nil }

// stages are all stages of the pipeline.
type stages struct {
	mu        sync.Mutex
	upstreams map[string]string // authority → address
	table     *classifier.Table
	deny      map[runtime.Ref]bool
	revoked   bool
	intents   []runtime.Record
	outcomes  chan runtime.Record
	dials     []string
	execute   func(context.Context, *runtime.Call, runtime.Responder) (runtime.Result, error) // nil: HTTP/1.1 upstream
}

// newRig starts a proxy. change may edit the options before New.
func newRig(t *testing.T, change func(*Options, *stages)) *rig {
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
	ln, err := net.Listen("tcp", "127.0.0.1:0")
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
	return &rig{t: t, server: server, addr: ln.Addr().String(), stages: st, roots: ca.roots}
}

func (s *stages) Identify(_ context.Context, c runtime.Caller) (runtime.Principal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revoked && !c.Token.Empty() {
		return runtime.Principal{}, &runtime.Error{Code: runtime.CodeUnauthenticated, Reason: runtime.ReasonTokenRevoked, Msg: "revoked"}
	}
	p := runtime.Principal{ID: "local:1", Kind: runtime.KindAgent, Tenant: runtime.DefaultTenant, Scopes: []runtime.Scope{"*"}}
	switch {
	case c.Token.Equal(runtime.NewSecret(goodToken)):
		p.ID = "token:good"
		return p, nil
	case !c.Token.Empty():
		return runtime.Principal{}, &runtime.Error{Code: runtime.CodeUnauthenticated, Reason: runtime.ReasonTokenUnknown, Msg: "unknown token"}
	case c.Peer.Owner && !c.RequireToken:
		return p, nil
	}
	return runtime.Principal{}, &runtime.Error{Code: runtime.CodeUnauthenticated, Reason: runtime.ReasonNoToken, Msg: "a token is needed"}
}

func (s *stages) Resolve(req *runtime.Request) (*runtime.Action, runtime.Args, error) {
	a := &runtime.Action{Ref: req.Action, Backend: "rest", Auth: &runtime.Auth{}}
	if req.Target.Scheme == "tcp" {
		a.Backend = "tunnel"
	}
	return a, req.Args, nil
}

func (s *stages) Decide(q runtime.Question) runtime.Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deny[q.Action.Ref] {
		return runtime.Verdict{Effect: runtime.EffectDeny, Rule: "test"}
	}
	return runtime.Verdict{Effect: runtime.EffectAllow, Rule: "test"}
}

func (s *stages) Await(context.Context, *runtime.Call, runtime.Verdict) (runtime.Ticket, error) {
	return runtime.Ticket{}, errors.New("nobody asks here")
}
func (s *stages) Finish(context.Context, runtime.Ticket, error) error { return nil }
func (s *stages) Credential(context.Context, runtime.Tenant, *runtime.Auth) (runtime.Credential, error) {
	return runtime.Credential{}, nil
}
func (s *stages) Ready() error { return nil }
func (s *stages) Intent(_ context.Context, r *runtime.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intents = append(s.intents, *r)
	return nil
}
func (s *stages) Outcome(r *runtime.Record) { s.outcomes <- *r }

// current is the table in force.
func (s *stages) current() Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table
}

// own compiles the routes of a service at the authorities: /open and below,
// /repos/{owner}/{repo} and its pulls, /denied, and /judged, whose body is read.
func (s *stages) own(t *testing.T, origins ...string) {
	t.Helper()
	var routes []classifier.Route
	for _, origin := range origins {
		scheme, authority, _ := strings.Cut(origin, "://")
		for path, action := range map[string]string{
			"/open": "good.open", "/open/{rest...}": "good.open", "/repos/{owner}/{repo}": "good.open",
			"/repos/{owner}/{repo}/pulls": "good.open", "/denied": "good.denied", "/judged": "good.open",
		} {
			routes = append(routes, classifier.Route{
				Action: action, Service: "good", Schemes: []string{scheme}, Authorities: []string{authority},
				Methods: []string{"GET", "HEAD", "POST"}, Path: path, Strict: path == "/judged", Source: "test",
			})
		}
	}
	table, err := classifier.Compile(routes)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table = table
}

// Dial is the guarded dialer: only what the test has put up can be reached.
func (s *stages) Dial(ctx context.Context, authority string, _, _ bool) (net.Conn, string, bool, error) {
	s.mu.Lock()
	address := s.upstreams[authority]
	s.dials = append(s.dials, authority)
	s.mu.Unlock()
	if address == "" {
		return nil, "", false, &runtime.Error{Code: runtime.CodeEgressDenied, Msg: "refused by the egress guard"}
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	return c, address, true, err
}

// Execute is a plain HTTP/1.1 backend: the upstreams of the tests speak
// cleartext also for https, since the second leg is not ours.
func (s *stages) Execute(ctx context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error) {
	if s.execute != nil {
		return s.execute(ctx, call, out)
	}
	var res runtime.Result
	in := call.Request
	transport := &http.Transport{
		DisableCompression: true, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, _, _, err := s.Dial(ctx, in.Target.Authority, true, true)
			return c, err
		},
	}
	defer transport.CloseIdleConnections()
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		return out.Informational(code, http.Header(h))
	}}
	path, query, _ := strings.Cut(in.Target.Path, "?")
	req := (&http.Request{
		Method: in.Target.Method, Host: in.Target.Authority, Header: in.Raw.Header, ContentLength: in.Raw.ContentLength,
		URL: &url.URL{Scheme: "http", Host: in.Target.Authority, Opaque: path, RawQuery: query},
	}).WithContext(httptrace.WithClientTrace(ctx, trace))
	if in.Raw.Body != nil {
		req.Body = io.NopCloser(in.Raw.Body)
		req.Trailer = http.Header{}
		for _, name := range in.Raw.Announced {
			req.Trailer[name] = nil
		}
		req.Body = &trailing{Reader: in.Raw.Body, fill: func() {
			for name, values := range in.Raw.Trailer() {
				req.Trailer[name] = values
			}
		}}
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header["User-Agent"] = nil
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return res, upstreamError(err)
	}
	defer func() { _ = resp.Body.Close() }()
	res.Status = resp.StatusCode
	header := resp.Header
	for name := range resp.Trailer {
		header.Add("Trailer", name)
	}
	if err := out.Start(resp.StatusCode, header); err != nil {
		return res, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return res, pass(resp, out)
	}
	buf := make([]byte, 8<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if _, werr := out.Write(buf[:n]); werr != nil {
				return res, &runtime.Error{Code: runtime.CodeCanceled, Msg: "client gone", Err: werr}
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return res, &runtime.Error{Code: runtime.CodeUpstream, Reason: runtime.ReasonTruncated, Msg: "cut", Err: err}
		}
	}
	out.Trailer(resp.Trailer)
	return res, nil
}

func upstreamError(err error) error {
	var e *runtime.Error
	if errors.As(err, &e) {
		return e
	}
	return &runtime.Error{Code: runtime.CodeUpstream, Reason: runtime.ReasonUpstreamUnavailable, Msg: "upstream failed", Err: err}
}

// pass joins an upgraded connection.
func pass(resp *http.Response, out runtime.Responder) error {
	client, err := out.Upgrade()
	if err != nil {
		return err
	}
	up := resp.Body.(io.ReadWriteCloser)
	done := make(chan struct{})
	go func() { defer close(done); _, _ = io.Copy(up, client); _ = up.Close() }()
	_, _ = io.Copy(client, up)
	_ = client.Close()
	<-done
	return nil
}

// trailing fills in trailers when the body has ended.
type trailing struct {
	io.Reader
	fill func()
}

func (b *trailing) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		b.fill()
	}
	return n, err
}
func (b *trailing) Close() error { return nil }

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
	c, err := net.Dial("tcp", r.addr)
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

// client is a raw HTTP client.
type client struct {
	t *testing.T
	net.Conn
	br *bufio.Reader
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, text); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

// answer reads one answer to a request of the method; the body stays.
func (c *client) answer(method string) *http.Response {
	c.t.Helper()
	resp, err := http.ReadResponse(c.br, &http.Request{Method: method})
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	return resp
}

// get reads one answer whole.
func (c *client) get(method string) (*http.Response, string) {
	c.t.Helper()
	resp := c.answer(method)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("body: %v after %q", err, body)
	}
	return resp, string(body)
}

// tls starts TLS on the connection.
func (c *client) tls(config *tls.Config) *client {
	c.t.Helper()
	inner := tls.Client(c.Conn, config)
	if err := inner.Handshake(); err != nil {
		c.t.Fatalf("handshake: %v", err)
	}
	return &client{t: c.t, Conn: inner, br: bufio.NewReader(inner)}
}

// refused demands a refusal with status and code, and returns the problem.
func (c *client) refused(status int, code runtime.Code) runtime.Problem {
	c.t.Helper()
	resp, body := c.get("GET")
	var p runtime.Problem
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		c.t.Fatalf("%s: not a problem: %q", resp.Status, body)
	}
	if resp.StatusCode != status || p.Code != code {
		c.t.Fatalf("got %d %s (%s), want %d %s", resp.StatusCode, p.Code, p.Detail, status, code)
	}
	if !strings.HasPrefix(resp.Header.Get("Kimbap-Error"), string(code)) || p.RequestID == "" {
		c.t.Fatalf("refusal without Kimbap-Error or request id: %v %+v", resp.Header, p)
	}
	return p
}

// ended demands that the connection ends without another byte.
func (c *client) ended() {
	c.t.Helper()
	if b, err := io.ReadAll(c.br); len(b) > 0 || errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		c.t.Fatalf("connection goes on: %q %v", b, err)
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
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
