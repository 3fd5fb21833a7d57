package proxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

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
	r := newRig(t, func(o *Options, _ *stages) { o.InterceptAll = always })
	r.upstream("any.test:443", answering(okAnswer))
	inside := r.open("any.test:443")
	inside.send("GET /x//y HTTP/1.1\r\nHost: any.test\r\n\r\n")
	inside.get("GET")
	if rec := r.outcome(); rec.Action.Ref != runtime.ActionPass || rec.Target.Scheme != "https" || rec.Target.Path != "/x//y" {
		t.Errorf("%s %+v", rec.Action.Ref, rec.Target)
	}
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
