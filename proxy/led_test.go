package proxy

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// led opens a connection that was led to the proxy and was meant for authority;
// "" for one that was meant for nobody.
func (r *rig) led(authority string) *client {
	r.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- r.server.ServeLed(ln, func(net.Conn) (string, bool) { return authority, authority != "" })
	}()
	r.t.Cleanup(func() {
		_ = ln.Close()
		<-done
		if own := r.server.Addr(); own.String() != r.addr {
			r.t.Errorf("the proxy's own pages are said to be at %v", own)
		}
	})
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * patience))
	return &client{t: r.t, Conn: c, br: bufio.NewReader(c)}
}

// Inside, a led connection is one after a CONNECT: same action, same record.
func TestLedIsLikeConnect(t *testing.T) {
	r := newRig(t, nil)
	get := func(c *client) runtime.Record {
		c.send("GET /open HTTP/1.1\r\nHost: api.good.test\r\n\r\n")
		if resp, body := c.get("GET"); resp.StatusCode != 200 {
			t.Fatalf("%s: %s", resp.Status, body)
		}
		return r.outcome()
	}
	r.upstream("api.good.test:443", answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	want := get(r.open("api.good.test:443"))
	got := get(r.led("api.good.test:443").tls(&tls.Config{RootCAs: r.roots, ServerName: "api.good.test"}))
	if got.Ref != want.Ref || got.Target.Authority != want.Target.Authority ||
		got.Surface != want.Surface || got.Principal.ID != want.Principal.ID {
		t.Errorf("led: %+v\nby CONNECT: %+v", got, want)
	}
}

// A client that says another name than it was led for gets no further, whether
// its tunnel would be opened or passed.
func TestLedToAnotherName(t *testing.T) {
	for _, authority := range []string{"api.good.test:443", "foreign.test:443"} {
		r := newRig(t, nil)
		received := r.upstream(authority, answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
		c := r.led(authority)
		err := tls.Client(c.Conn, &tls.Config{RootCAs: r.roots, ServerName: "other.test"}).Handshake()
		if err == nil {
			t.Errorf("%s: the handshake went well", authority)
		}
		for {
			rec := r.outcome()
			if codeOf(rec.Err) == runtime.CodeMisdirected {
				break
			}
		}
		_ = c.Close()
		if got := received(); got != "" {
			t.Errorf("%s: the upstream got %q", authority, got)
		}
	}
}

// A refusal is told in the way that the client speaks, once, and what the client
// has said goes nowhere.
func TestLedRefusals(t *testing.T) {
	deny := func(_ *Options, st *stages) { st.deny[runtime.ActionPass] = true }
	t.Run("plain", func(t *testing.T) {
		r := newRig(t, deny)
		c := r.led("foreign.test:80")
		c.send("GET http://plain.good.test/open HTTP/1.1\r\nHost: plain.good.test\r\n\r\n")
		c.refused(403, runtime.CodeForbidden)
		c.ended()
		if rec := r.outcome(); rec.Target.Authority != "foreign.test:80" {
			t.Errorf("recorded %+v", rec.Target)
		}
		select {
		case rec := <-r.stages.outcomes:
			t.Errorf("what followed the refusal was taken for a request: %+v", rec.Target)
		default:
		}
	})
	t.Run("tls", func(t *testing.T) {
		r := newRig(t, deny)
		c := r.led("foreign.test:443")
		err := tls.Client(c.Conn, &tls.Config{RootCAs: r.roots, ServerName: "foreign.test"}).Handshake()
		var alert *net.OpError
		if !errors.As(err, &alert) || !strings.Contains(err.Error(), "access denied") {
			t.Errorf("it was told %v", err)
		}
		if rest, err := io.ReadAll(c.Conn); len(rest) > 0 {
			t.Errorf("and %q, %v", rest, err)
		}
		if rec := r.outcome(); codeOf(rec.Err) != runtime.CodeForbidden {
			t.Errorf("recorded %v", rec.Err)
		}
	})
}

// A server that speaks first is reached as by CONNECT: as a tunnel, if policy
// lets one be.
func TestLedWithoutAWord(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(_ *Options, st *stages) { st.deny = map[runtime.Ref]bool{} })
	r.upstream("foreign.test:8443", func(c net.Conn, _ *bufio.Reader) { _, _ = io.WriteString(c, "hello\n"); _ = c.Close() })
	c := r.led("foreign.test:8443")
	if line, err := c.br.ReadString('\n'); line != "hello\n" {
		t.Fatalf("%q %v", line, err)
	}
	_ = c.Close()
	if rec := r.outcome(); rec.Ref != runtime.ActionPass {
		t.Errorf("first %+v", rec.Ref)
	}
	if rec := r.outcome(); rec.Ref != runtime.ActionTunnel {
		t.Errorf("then %+v", rec.Ref)
	}
}

func TestLedToNobody(t *testing.T) {
	r := newRig(t, nil)
	r.led("").ended()
}

// An authority that is none is refused like any other, not repaired.
func TestLedToNoHost(t *testing.T) {
	r := newRig(t, nil)
	c := r.led("x..y:80")
	c.refused(400, runtime.CodeInvalidInput)
	c.ended()
}

// codeOf is the code of what a record ended with, "" when it went well.
func codeOf(e *runtime.Error) runtime.Code {
	if e == nil {
		return ""
	}
	return e.Code
}
