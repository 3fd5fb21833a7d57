package proxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// Nothing that the proxy cannot do without may be missing.
func TestNewRefuses(t *testing.T) {
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "Pipeline") {
		t.Errorf("got %v", err)
	}
	if _, err := NewTunnel(TunnelOptions{}); err == nil {
		t.Error("a tunnel without a dialer")
	}
}

// The kernel knows whose connection it is, over IPv4 and IPv6, and that nobody
// holds one whose program has gone.
func TestPeer(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		s, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if p := KernelPeer(s); !p.Owner || !p.Known || p.UID != os.Geteuid() {
			t.Errorf("%s: %+v", address, p)
		}
		_ = c.Close()
		if _, err := s.Read(make([]byte, 1)); err != io.EOF {
			t.Fatal(err)
		}
		if p := KernelPeer(s); p.Owner || p.Known {
			t.Errorf("%s after the close: %+v", address, p)
		}
		from := netip.MustParseAddrPort(c.LocalAddr().String())
		listening := netip.MustParseAddrPort(ln.Addr().String())
		// Nobody is connected from there; a listener that would match is not an answer.
		if p := socketOwner(netip.AddrPortFrom(listening.Addr(), listening.Port()), netip.AddrPortFrom(from.Addr(), 1)); p != (runtime.Peer{}) {
			t.Errorf("%s: a listener counts as %+v", address, p)
		}
		_, _ = s.Close(), ln.Close()
	}
	if p := KernelPeer(&net.UnixConn{}); p != (runtime.Peer{}) {
		t.Errorf("a unix socket counts as %+v", p)
	}
}

// A program of another user gets nothing without a token, not even with the
// token that the owner would be given.
func TestForeignPeer(t *testing.T) {
	foreign := func(net.Conn) runtime.Peer { return runtime.Peer{Known: true, UID: 1} }
	for _, peer := range []func(net.Conn) runtime.Peer{foreign, nil} {
		r := newRig(t, func(o *Options, _ *stages) {
			o.Peer, o.RequireToken, o.DefaultToken = peer, true, runtime.NewSecret(goodToken)
		})
		r.upstream("plain.test:80", answering(okAnswer))
		c := r.dial()
		c.send("GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n")
		if peer != nil {
			c.refused(407, runtime.CodeUnauthenticated)
			continue
		}
		if resp, _ := c.get("GET"); resp.StatusCode != 200 || r.outcome().Principal.ID != "token:good" {
			t.Errorf("the owner got %s", resp.Status)
		}
	}
}

// Plain http in absolute-form, to a foreign host and to a service's.
func TestAbsoluteForm(t *testing.T) {
	r := newRig(t, nil)
	received := r.upstream("plain.test:80", answering(okAnswer))
	r.upstream("plain.good.test:80", answering(okAnswer))
	c := r.dial()
	for _, line := range []struct {
		target, host string
		action       runtime.Ref
		path         string
	}{
		{"http://plain.test", "plain.test", runtime.ActionPass, "/"},
		{"http://PLAIN.test:80/a//b/../%2e?q", "plain.test", runtime.ActionPass, "/a//b/../%2e?q"},
		{"http://plain.good.test/open?x=1", "plain.good.test", "good.open", "/open?x=1"},
	} {
		c.send("GET " + line.target + " HTTP/1.1\r\nHost: " + line.host + "\r\n\r\n")
		if resp, body := c.get("GET"); resp.StatusCode != 200 || body != "ok" {
			t.Fatalf("%s: %s %q", line.target, resp.Status, body)
		}
		rec := r.outcome()
		if rec.Action.Ref != line.action || rec.Target.Path != line.path || rec.Target.Scheme != "http" || rec.Surface != runtime.SurfaceProxy {
			t.Errorf("%s: %s %+v", line.target, rec.Action.Ref, rec.Target)
		}
	}
	if !strings.Contains(received(), "GET /a//b/../%2e?q HTTP/1.1\r\n") {
		t.Errorf("a foreign host got %q", received())
	}
}

// Both bodies stream at the same time.
func TestFullDuplex(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("api.good.test:443", func(c net.Conn, br *bufio.Reader) {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		b := make([]byte, 1)
		for {
			if _, err := io.ReadFull(req.Body, b); err != nil {
				break
			}
			_, _ = fmt.Fprintf(c, "1\r\n%s\r\n", b)
		}
		_, _ = io.WriteString(c, "0\r\n\r\n")
	})
	inside := r.open("api.good.test:443")
	inside.send("POST /open HTTP/1.1\r\nHost: api.good.test\r\nTransfer-Encoding: chunked\r\n\r\n")
	resp := inside.answer("POST")
	got := make([]byte, 1)
	for i := range 100 {
		inside.send(fmt.Sprintf("1\r\n%c\r\n", 'a'+i%26))
		if _, err := io.ReadFull(resp.Body, got); err != nil || got[0] != byte('a'+i%26) {
			t.Fatalf("%d: %q %v", i, got, err)
		}
	}
	inside.send("0\r\n\r\n" + openGood)
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q %v", rest, err)
	}
	inside.answer("GET") // in step for the next request
}

// A body that must be judged is sent as it was judged.
func TestJudgedBody(t *testing.T) {
	r := newRig(t, nil)
	received := r.upstream("api.good.test:443", answering(okAnswer))
	inside := r.open("api.good.test:443")
	body := "{ \"a\" : 1.0 }"
	inside.send(fmt.Sprintf("POST /judged HTTP/1.1\r\nHost: api.good.test\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	if resp, _ := inside.get("POST"); resp.StatusCode != 200 || !strings.HasSuffix(received(), body) {
		t.Errorf("%s, the upstream got %q", resp.Status, received())
	}
	if rec := r.outcome(); rec.Body != "read" {
		t.Errorf("body recorded as %s", rec.Body)
	}
}

// All foreign hosts opened: no service, but every request judged.
func TestInterceptAll(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.InterceptAll = true })
	r.upstream("any.test:443", answering(okAnswer))
	inside := r.open("any.test:443")
	inside.send("GET /x//y HTTP/1.1\r\nHost: any.test\r\n\r\n")
	inside.get("GET")
	if rec := r.outcome(); rec.Action.Ref != runtime.ActionPass || rec.Target.Scheme != "https" || rec.Target.Path != "/x//y" {
		t.Errorf("%s %+v", rec.Action.Ref, rec.Target)
	}
}

// The proxy's own pages.
func TestOwnPages(t *testing.T) {
	well := error(nil)
	r := newRig(t, func(o *Options, _ *stages) {
		o.Health = func(context.Context) error { return well }
		o.Approval = func(_ context.Context, c runtime.Caller, id string) (any, error) {
			if id != "apr_1" || !c.Peer.Owner {
				return nil, &runtime.Error{Code: runtime.CodeUnknownAction, Msg: "no such approval"}
			}
			return map[string]string{"state": "pending"}, nil
		}
	})
	for _, c := range []struct {
		line, host string
		status     int
		body       string
	}{
		{"GET /healthz", r.addr, 200, "ok\n"},
		{"GET /kimbap/ca.pem", r.addr, 200, "PEM"},
		{"GET /kimbap/proxy.pac", r.addr, 200, "PROXY " + r.addr},
		{"GET /kimbap/proxy.pac", "rebound.test", 200, "PROXY " + r.addr},
		{"GET /kimbap/approvals/apr_1", r.addr, 200, `{"state":"pending"}`},
		{"GET /kimbap/approvals/apr_2", r.addr, 403, "no such approval"},
		{"GET /kimbap/approvals/apr_1", "rebound.test", 421, "misdirected"},
		{"POST /healthz", r.addr, 405, "read only"},
		{"GET /", r.addr, 404, "no such page"},
	} {
		conn := r.dial()
		conn.send(c.line + " HTTP/1.1\r\nHost: " + c.host + "\r\n\r\n")
		if resp, body := conn.get("GET"); resp.StatusCode != c.status || !strings.Contains(body, c.body) {
			t.Errorf("%s of %s: %s %q", c.line, c.host, resp.Status, body)
		}
		_ = conn.Close()
	}
	well = errors.New("disk full")
	conn := r.dial()
	conn.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp, body := conn.get("GET"); resp.StatusCode != 503 || strings.Contains(body, "disk") {
		t.Errorf("%s %q", resp.Status, body)
	}
}

// A proxy that listens on every address names the one that it was reached at.
func TestWhereAProxyOnEveryAddressIs(t *testing.T) {
	asked := &asking{urls: make(chan string, 2)}
	r := newRig(t, func(o *Options, _ *stages) { asked.Doer, o.Pipeline = o.Pipeline, asked })
	ln, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	r.eventually("the first listener", func() bool { return r.server.Addr() != nil })
	served := make(chan error, 1)
	go func() { served <- r.server.Serve(ln) }()
	t.Cleanup(func() { _ = ln.Close(); <-served })
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	r.addr = "127.0.0.1:" + port
	page := func(path string) string {
		c := r.dial()
		c.send("GET " + path + " HTTP/1.1\r\nHost: kimbap.test\r\n\r\n")
		_, body := c.get("GET")
		return body
	}
	r.eventually("the new listener", func() bool { return r.server.Addr() == ln.Addr() })
	if body := page("/kimbap/proxy.pac"); !strings.Contains(body, `"PROXY `+r.addr+`"`) {
		t.Errorf("%s", body)
	}
	for _, request := range []string{
		"GET http://plain.good.test/open HTTP/1.1\r\nHost: plain.good.test\r\n\r\n",
		"CONNECT db.test:22 HTTP/1.1\r\nHost: db.test:22\r\n\r\n",
	} {
		c := r.dial()
		c.send(request)
		if url, want := <-asked.urls, "http://"+r.addr+"/kimbap/approvals/apr_1"; url != want {
			t.Errorf("%q: the approval stands at %s, want %s", request, url, want)
		}
		_ = c.Close()
	}
}

// asking is a pipeline that asks where approvals stand.
type asking struct {
	Doer
	urls chan string
}

func (a *asking) Do(ctx context.Context, req *runtime.Request, out runtime.Responder) error {
	a.urls <- req.Results("apr_1")
	return a.Doer.Do(ctx, req, out)
}

// One panic is one 500, and one line in the log for each request.
func TestPanicAndLog(t *testing.T) {
	var out bytes.Buffer
	lines := make(chan struct{}, 100)
	r := newRig(t, func(o *Options, _ *stages) {
		o.Log = zerolog.New(writerFunc(func(p []byte) (int, error) {
			if bytes.Contains(p, []byte(`"message":"request"`)) || bytes.Contains(p, []byte(`"message":"panic`)) {
				out.Write(p)
				lines <- struct{}{}
			}
			return len(p), nil
		}))
		table := o.Table
		o.Table = func() Table { return panicking{table()} }
	})
	r.upstream("api.good.test:443", answering(okAnswer))
	inside := r.open("api.good.test:443")
	inside.send("GET /open/panic?secret=1 HTTP/1.1\r\nHost: api.good.test\r\n\r\n")
	if resp, _ := inside.get("GET"); resp.StatusCode != 500 {
		t.Errorf("got %s", resp.Status)
	}
	<-lines
	again := r.open("api.good.test:443")
	again.send("GET /open?secret=1 HTTP/1.1\r\nHost: api.good.test\r\n\r\n")
	if resp, _ := again.get("GET"); resp.StatusCode != 200 {
		t.Errorf("the process did not live: %s", resp.Status)
	}
	<-lines
	_, last, _ := strings.Cut(out.String(), "\n")
	var line map[string]any
	if err := json.Unmarshal([]byte(last), &line); err != nil {
		t.Fatalf("%v: %q", err, last)
	}
	for key, want := range map[string]any{
		"level": "info", "message": "request", "surface": "proxy", "action": "good.open", "method": "GET",
		"authority": "api.good.test:443", "status": 200.0,
	} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
	if strings.Contains(out.String(), "secret") {
		t.Errorf("a query is in the log: %s", out.String())
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

type panicking struct{ Table }

func (p panicking) Match(in classifier.Input) (classifier.Match, error) {
	if strings.HasPrefix(in.Target, "/open/panic") {
		panic("in the table")
	}
	return p.Table.Match(in)
}

// When descriptors run out, accepting waits and goes on, and says so once.
func TestDescriptorsRunOut(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	said := 0
	r := newRig(t, func(o *Options, _ *stages) {
		o.Log = zerolog.New(writerFunc(func(p []byte) (int, error) { said++; return len(p), nil }))
	})
	a := &acceptor{Listener: &exhausted{Listener: ln, left: 3}, s: r.server, closed: make(chan struct{})}
	go func() {
		if c, err := net.Dial("tcp", ln.Addr().String()); err == nil {
			_ = c.Close()
		}
	}()
	c, err := a.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if said != 1 {
		t.Errorf("said so %d times", said)
	}
	_ = a.Close()
	if _, err := a.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the close: %v", err)
	}
}

// exhausted has no descriptor the first times it is asked.
type exhausted struct {
	net.Listener
	left int
}

func (e *exhausted) Accept() (net.Conn, error) {
	if e.left > 0 {
		e.left--
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return e.Listener.Accept()
}

// A client that reads nothing does not hold the backend for ever.
func TestClientThatDoesNotRead(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.Limits.IdleTimeout = 200 * time.Millisecond })
	r.upstream("api.good.test:443", func(c net.Conn, br *bufio.Reader) {
		_, _ = http.ReadRequest(br)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
		for {
			if _, err := c.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	inside := r.open("api.good.test:443")
	inside.send(openGood)
	if rec := r.outcome(); rec.Err == nil || rec.Err.Code != runtime.CodeCanceled {
		t.Errorf("recorded %+v", rec.Err)
	}
}

// CB-076: a proxy in our own environment is nobody's business here, least of
// all when it is ourselves.
func TestEnvironmentIgnored(t *testing.T) {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	r := newRig(t, nil)
	r.upstream("plain.test:80", answering(okAnswer))
	c := r.connect("plain.test:80", "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n")
	if resp, _ := c.get("GET"); resp.StatusCode != 200 {
		t.Errorf("got %s", resp.Status)
	}
	if r.server.front.ConnectDial != nil || r.server.front.Tr.Proxy != nil {
		t.Error("goproxy would use the environment")
	}
}

// CB-074: the next request in an open tunnel is judged by the policy of now.
func TestPolicyChangesInTunnel(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("api.good.test:443", answering(okAnswer))
	inside := r.open("api.good.test:443")
	inside.send(openGood)
	inside.get("GET")
	r.stages.mu.Lock()
	r.stages.deny["good.open"] = true
	r.stages.mu.Unlock()
	inside.send(openGood)
	inside.refused(403, runtime.CodeForbidden)
	r.stages.own(t, "http://plain.good.test:80") // and the table of now
	inside.send(openGood)
	if resp, _ := inside.get("GET"); resp.StatusCode != 200 {
		t.Errorf("a host that nobody owns any more: %s", resp.Status)
	}
}

// An upgrade outside any tunnel ends with the server.
func TestShutdownEndsUpgrades(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("plain.test:80", func(c net.Conn, br *bufio.Reader) {
		_, _ = http.ReadRequest(br)
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		_, _ = io.Copy(c, br)
	})
	c := r.dial()
	c.send("GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if resp := c.answer("GET"); resp.StatusCode != 101 {
		t.Fatal(resp.Status)
	}
	if err := r.server.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if n := len(r.stages.outcomes); n != 1 {
		t.Errorf("%d outcomes", n)
	}
	c.ended()
}
