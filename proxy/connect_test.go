package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// PC-018: a refused CONNECT is an ordinary answer; the connection goes on.
func TestRefusedConnectStaysOpen(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("fine.test:443", func(c net.Conn, br *bufio.Reader) { _, _ = io.Copy(c, br) })
	r.stages.mu.Lock()
	r.stages.deny[runtime.ActionPass] = true
	r.stages.mu.Unlock()
	c := r.dial()
	for range 2 {
		c.send("CONNECT fine.test:443 HTTP/1.1\r\nHost: fine.test:443\r\n\r\n")
		c.refused(403, runtime.CodeForbidden)
	}
	if len(r.stages.dials) > 0 {
		t.Errorf("dialled %v", r.stages.dials)
	}
}

// Node 24's own agent leaves a connection open on which a CONNECT was refused, and the
// process then lives until somebody closes it. One that only lacked its token goes on.
func TestAConnectionIsNotKeptLongAfterARefusedConnect(t *testing.T) {
	for _, engine := range []Engine{EngineStd, EngineRelay} {
		r := newRig(t, func(o *Options, _ *stages) { o.Engine, o.RequireToken = engine, true })
		r.stages.mu.Lock()
		r.stages.deny[runtime.ActionPass] = true
		r.stages.mu.Unlock()
		token := "\r\nProxy-Authorization: Bearer " + goodToken + "\r\n\r\n"
		c, waiting := r.dial(), r.dial()
		waiting.send("CONNECT fine.test:443 HTTP/1.1\r\nHost: fine.test:443\r\n\r\n")
		waiting.refused(407, runtime.CodeUnauthenticated)
		c.send("CONNECT fine.test:443 HTTP/1.1\r\nHost: fine.test:443" + token)
		c.refused(403, runtime.CodeForbidden)
		_ = c.SetReadDeadline(time.Now().Add(20 * afterRefusal))
		if _, err := c.br.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: it is still open: %v", engine, err)
		}
		waiting.send("CONNECT fine.test:443 HTTP/1.1\r\nHost: fine.test:443" + token)
		waiting.refused(403, runtime.CodeForbidden)
	}
}

// lftp sends a CONNECT of HTTP/1.1 without a Host field, which could only repeat its target.
// Any other request must have one, inside the tunnel too.
func TestConnectNeedsNoHost(t *testing.T) {
	for _, engine := range []Engine{EngineStd, EngineRelay} {
		r := newRig(t, func(o *Options, _ *stages) { o.Engine = engine })
		r.upstream("api.good.test:443", answering(okAnswer))
		c := r.dial()
		c.send("CONNECT api.good.test:443 HTTP/1.1\r\n\r\n")
		if resp := c.answer("CONNECT"); resp.StatusCode != 200 {
			t.Fatalf("%s: %s", engine, resp.Status)
		}
		inside := c.tls(&tls.Config{RootCAs: r.roots, ServerName: "api.good.test"})
		inside.send("GET /open HTTP/1.1\r\nHost: api.good.test\r\n\r\n")
		if resp, body := inside.get("GET"); resp.StatusCode != 200 || body != "ok" {
			t.Errorf("%s: %s %q", engine, resp.Status, body)
		}
		sent := len(r.stages.dials)
		inside.send("GET /open HTTP/1.1\r\n\r\n")
		inside.refused(400, runtime.CodeInvalidInput)
		for head, code := range map[string]runtime.Code{
			"GET http://plain.test/ HTTP/1.1\r\n\r\n":             runtime.CodeInvalidInput,
			"CONNECT api.good.test:443 HTTP/1.1\r\nHost:\r\n\r\n": runtime.CodeAmbiguousTarget,
			"CONNECT /open HTTP/1.1\r\n\r\n":                      runtime.CodeInvalidInput,
		} {
			c := r.dial()
			c.send(head)
			c.refused(400, code)
		}
		c = r.dial()
		c.send("CONNECT api.good.test:443 HTTP/1.1\r\nHost: plain.test:443\r\n\r\n")
		c.refused(421, runtime.CodeMisdirected)
		if len(r.stages.dials) != sent {
			t.Errorf("%s: dialled %v", engine, r.stages.dials)
		}
	}
}

// The ProxyAgent of undici 5 names the proxy, and not the target, in the Host field of a
// CONNECT. Nobody else is named so: not in a tunnel, not by another method, not by a port.
func TestConnectMayNameTheProxyAsItsHost(t *testing.T) {
	for _, engine := range []Engine{EngineStd, EngineRelay} {
		r := newRig(t, func(o *Options, _ *stages) { o.Engine = engine })
		r.upstream("api.good.test:443", answering(okAnswer))
		own := r.server.Addr().String()
		_, port, _ := net.SplitHostPort(own)
		for _, host := range []string{own, "localhost:" + port} {
			c := r.dial()
			c.send("CONNECT api.good.test:443 HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
			if resp := c.answer("CONNECT"); resp.StatusCode != 200 {
				t.Fatalf("%s: Host: %s: %s", engine, host, resp.Status)
			}
			inside := c.tls(&tls.Config{RootCAs: r.roots, ServerName: "api.good.test"})
			inside.send("GET /open HTTP/1.1\r\nHost: api.good.test\r\n\r\n")
			if resp, body := inside.get("GET"); resp.StatusCode != 200 || body != "ok" {
				t.Errorf("%s: %s %q", engine, resp.Status, body)
			}
			inside.send("GET /open HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
			inside.refused(421, runtime.CodeMisdirected)
		}
		sent := len(r.stages.dials)
		for _, head := range []string{
			"CONNECT api.good.test:443 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
			"CONNECT api.good.test:443 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n",
			"CONNECT api.good.test:443 HTTP/1.1\r\nHost: 127.0.0.2:" + port + "\r\n\r\n",
			"CONNECT api.good.test:443 HTTP/1.1\r\nHost: proxy.test:" + port + "\r\n\r\n",
			"GET http://plain.test/ HTTP/1.1\r\nHost: " + own + "\r\n\r\n",
		} {
			c := r.dial()
			c.send(head)
			c.refused(421, runtime.CodeMisdirected)
		}
		if len(r.stages.dials) != sent {
			t.Errorf("%s: dialled %v", engine, r.stages.dials)
		}
	}
}

// PC-020: a client that has sent its request and half-closed still gets the
// answer. net/http takes the end for a client that left, so this holds for raw
// tunnels; inside opened ones TLS has no half-close that clients use.
func TestHalfClose(t *testing.T) {
	r := newRig(t, nil)
	sawEnd := make(chan struct{})
	r.upstream("plain.test:80", func(c net.Conn, br *bufio.Reader) {
		_, _ = io.Copy(io.Discard, br)
		close(sawEnd)
		_, _ = io.WriteString(c, okAnswer)
	})
	c := r.dial()
	c.send("CONNECT plain.test:80 HTTP/1.1\r\nHost: plain.test:80\r\n\r\n")
	c.answer("CONNECT")
	c.send("GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n")
	_ = c.Conn.(*net.TCPConn).CloseWrite()
	<-sawEnd
	if resp, body := c.get("GET"); resp.StatusCode != 200 || body != "ok" {
		t.Errorf("%s %q", resp.Status, body)
	}
}

// PC-020: outside of tunnels an end of one half is taken for an end of both. A program that
// was stopped sends no other, and nobody should be asked for it, nor an answer made, any more.
func TestAHalfCloseInPlainHTTPIsAnEnd(t *testing.T) {
	r := newRig(t, func(_ *Options, st *stages) {
		st.execute = func(ctx context.Context, _ *runtime.Call, _ runtime.Responder) (runtime.Result, error) {
			<-ctx.Done()
			return runtime.Result{}, &runtime.Error{Code: runtime.CodeCanceled, Msg: "gone", Err: ctx.Err()}
		}
	})
	c := r.dial()
	c.send("GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n")
	_ = c.Conn.(*net.TCPConn).CloseWrite()
	if rec := r.outcome(); rec.Err == nil || rec.Err.Code != runtime.CodeCanceled {
		t.Errorf("recorded %+v", rec.Err)
	}
}

// PC-026: the ways to show a token, at CONNECT and in absolute-form.
func TestTokens(t *testing.T) {
	for _, c := range []struct {
		id      string
		require bool
		fields  string
		ok      bool
	}{
		{"none, none needed", false, "", true},
		{"none", true, "", false},
		{"as user", true, "Proxy-Authorization: " + basic(goodToken, "") + "\r\n", true},
		{"as user with a password", true, "Proxy-Authorization: " + basic(goodToken, "x") + "\r\n", true},
		{"as password", true, "Proxy-Authorization: " + basic("kimbap", goodToken) + "\r\n", true},
		{"bearer", true, "proxy-authorization: bearer " + goodToken + "\r\n", true},
		{"wrong", true, "Proxy-Authorization: " + basic("", "kmb_wrong") + "\r\n", false},
		{"wrong, none needed", false, "Proxy-Authorization: " + basic("", "kmb_wrong") + "\r\n", false},
		{"unreadable, none needed", false, "Proxy-Authorization: Digest x\r\n", false},
		{"twice", false, "Proxy-Authorization: Bearer " + goodToken + "\r\nProxy-Authorization: Bearer " + goodToken + "\r\n", false},
	} {
		t.Run(c.id, func(t *testing.T) {
			r := newRig(t, func(o *Options, _ *stages) { o.RequireToken = c.require })
			received := r.upstream("plain.test:80", answering(okAnswer))
			for _, line := range []string{"CONNECT api.good.test:443", "GET http://plain.test/"} {
				host := strings.TrimSuffix(strings.TrimPrefix(strings.Fields(line)[1], "http://"), "/")
				conn := r.dial()
				conn.send(line + " HTTP/1.1\r\nHost: " + host + "\r\n" + c.fields + "\r\n")
				resp := conn.answer(strings.Fields(line)[0])
				if (resp.StatusCode == 200) != c.ok {
					t.Errorf("%s: %s", line, resp.Status)
				}
				if !c.ok && (resp.StatusCode != 407 || resp.Header.Get("Proxy-Authenticate") != `Basic realm="kimbap"`) {
					t.Errorf("%s: %s without a challenge", line, resp.Status)
				}
				_ = conn.Close()
			}
			if strings.Contains(strings.ToLower(received()), "proxy-") {
				t.Errorf("the upstream got %q", received())
			}
		})
	}
}

// CB-075: the token of the CONNECT is judged again for each request.
func TestTokenRevokedInTunnel(t *testing.T) {
	revoked := false
	r := newRig(t, func(o *Options, st *stages) {
		o.RequireToken = true
		o.Pipeline = &revoking{Doer: o.Pipeline, revoked: &revoked}
	})
	r.upstream("api.good.test:443", answering(okAnswer))
	inside := r.open("api.good.test:443", "Proxy-Authorization: Bearer "+goodToken)
	inside.send(openGood)
	inside.get("GET")
	revoked = true
	inside.send(openGood)
	inside.refused(407, runtime.CodeUnauthenticated)
}

// The client's side offers what we can serve.
func TestHandshake(t *testing.T) {
	r := newRig(t, nil)
	inside := r.open("api.good.test:443")
	state := inside.Conn.(*tls.Conn).ConnectionState()
	if state.Version != tls.VersionTLS13 || state.CurveID != tls.X25519 {
		t.Errorf("version %x, curve %v", state.Version, state.CurveID)
	}
}
