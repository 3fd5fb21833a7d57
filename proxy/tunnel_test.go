package proxy

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// connect opens a raw tunnel.
func (r *rig) connect(authority, more string) *client {
	r.t.Helper()
	c := r.dial()
	c.send("CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n\r\n" + more)
	if resp := c.answer("CONNECT"); resp.StatusCode != 200 || len(resp.Header) > 0 {
		r.t.Fatalf("CONNECT %s: %s %v", authority, resp.Status, resp.Header)
	}
	return c
}

// TLS for the host of the CONNECT passes untouched, its certificate included.
func TestRawTLS(t *testing.T) {
	r := newRig(t, nil)
	ca := newTestCA(t)
	r.upstream("tls.test:443", func(c net.Conn, br *bufio.Reader) {
		server := tls.Server(&deafReader{c, br}, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return ca.leaf("tls.test:443") }})
		_, _ = io.Copy(server, server)
		_ = server.Close()
	})
	c := r.connect("tls.test:443", "").tls(&tls.Config{RootCAs: ca.roots, ServerName: "tls.test"})
	c.send("hello")
	got := make([]byte, 5)
	if _, err := io.ReadFull(c.br, got); err != nil || string(got) != "hello" {
		t.Fatalf("%q %v", got, err)
	}
	_ = c.Close()
	rec := r.outcome()
	if rec.Err != nil || rec.Action.Ref != runtime.ActionPass || rec.Result.BytesIn == 0 || rec.Result.BytesOut == 0 || rec.Result.Address == "" {
		t.Errorf("recorded %+v", rec)
	}
}

type deafReader struct {
	net.Conn
	br *bufio.Reader
}

func (d *deafReader) Read(p []byte) (int, error) { return d.br.Read(p) }

// TLS or HTTP for another host ends the tunnel before a byte has passed.
func TestRawMisdirected(t *testing.T) {
	r := newRig(t, nil)
	received := r.upstream("one.test:443", answering(okAnswer))
	c := r.connect("one.test:443", "")
	if err := tls.Client(c.Conn, &tls.Config{ServerName: "api.good.test"}).Handshake(); err == nil {
		t.Error("the handshake went well")
	}
	if rec := r.outcome(); rec.Err == nil || rec.Err.Code != runtime.CodeMisdirected {
		t.Errorf("TLS: recorded %+v", rec.Err)
	}
	c = r.connect("one.test:443", "GET / HTTP/1.1\r\nHost: api.good.test\r\n\r\n")
	c.ended()
	if rec := r.outcome(); rec.Err == nil || rec.Err.Code != runtime.CodeMisdirected {
		t.Errorf("HTTP: recorded %+v", rec.Err)
	}
	if received() != "" {
		t.Errorf("the upstream got %q", received())
	}
}

// A client that says nothing, or nothing we know, needs net.tunnel.
func TestUnknownProtocol(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, first string }{
		{"silence", ""}, {"unknown byte", "\x00\x01"}, {"SSH", "SSH-2.0-x\r\n"}, {"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}, {"broken TLS", "\x16\x03\x01\x00\x04\xff\xff\xff\xff"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			received := r.upstream("other.test:9000", func(u net.Conn, br *bufio.Reader) {
				_, _ = io.WriteString(u, "banner")
				_, _ = io.Copy(u, br)
			})
			conn := r.connect("other.test:9000", c.first)
			conn.ended()
			if rec := r.outcome(); rec.Err != nil || rec.Action.Ref != runtime.ActionPass {
				t.Errorf("first record %+v", rec)
			}
			if rec := r.outcome(); rec.Err == nil || rec.Action.Ref != runtime.ActionTunnel || rec.Err.Code != runtime.CodeForbidden {
				t.Errorf("second record %+v", rec)
			}
			if received() != "" {
				t.Errorf("the upstream got %q", received())
			}
			r.stages.mu.Lock()
			delete(r.stages.deny, runtime.ActionTunnel)
			r.stages.mu.Unlock()
			conn = r.connect("other.test:9000", c.first)
			want := "banner" + c.first
			got := make([]byte, len(want))
			if _, err := io.ReadFull(conn.br, got); err != nil || string(got) != want {
				t.Errorf("%q %v", got, err)
			}
			_ = conn.Close()
			r.outcome()
			if rec := r.outcome(); rec.Err != nil || rec.Action.Ref != runtime.ActionTunnel || rec.Result.BytesIn != int64(len(want)) {
				t.Errorf("record %+v", rec)
			}
		})
	}
}

// throughTunnel gives the rig a tunnel with these options.
func throughTunnel(t *testing.T, o *Options, st *stages, options TunnelOptions) {
	t.Helper()
	tunnel, err := NewTunnel(options)
	if err != nil {
		t.Fatal(err)
	}
	o.Pipeline, err = runtime.New(runtime.Options{
		Identity: st, Services: st, Policy: st, Limits: st, Approvals: st, Vault: st, Trail: st,
		Backends: map[string]runtime.Backend{"rest": st, "tunnel": tunnel},
		Clock:    time.Now, NewID: func() string { return runtime.NewID("req", time.Now()) },
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A client that is far away hears the 200 late, and what it says comes later still. It
// is not taken for one that waits for the other side, which would be refused.
func TestAClientFromFarAwayIsWaitedFor(t *testing.T) {
	r := newRig(t, func(o *Options, st *stages) {
		throughTunnel(t, o, st, TunnelOptions{Dialer: st, Peek: 50 * time.Millisecond})
	})
	r.upstream("far.test:80", answering(okAnswer))
	c := r.connect("far.test:80", "")
	time.Sleep(300 * time.Millisecond)
	c.send("GET / HTTP/1.1\r\nHost: far.test\r\n\r\n")
	if resp, body := c.get("GET"); resp.StatusCode != 200 || body != "ok" {
		t.Errorf("%s %q", resp.Status, body)
	}
	_ = c.Close()
	if rec := r.outcome(); rec.Err != nil || rec.Action.Ref != runtime.ActionPass {
		t.Errorf("recorded %+v", rec)
	}
}

// A program that has gone holds no place because its upstream does not go too. One that
// has ended its half only, and waits, is left as long as something comes.
func TestATunnelThatHasHalfEndedEnds(t *testing.T) {
	r := newRig(t, func(o *Options, st *stages) {
		o.Limits = Limits{PerPrincipal: 1, QueueTimeout: patience}
		throughTunnel(t, o, st, TunnelOptions{Dialer: st, Peek: time.Second, Idle: func() time.Duration { return 2 * time.Second }})
	})
	over := make(chan struct{})
	defer close(over)
	r.upstream("stays.test:80", func(c net.Conn, br *bufio.Reader) {
		_, _ = io.Copy(io.Discard, br)
		for range 50 { // for longer than that, with pauses of a fortieth
			time.Sleep(50 * time.Millisecond)
			_, _ = io.WriteString(c, "x")
		}
		<-over
	})
	const head = "GET / HTTP/1.1\r\nHost: stays.test\r\n\r\n"
	waits := r.connect("stays.test:80", head)
	if err := waits.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(waits.br); string(got) != strings.Repeat("x", 50) || err == nil {
		t.Errorf("%q %v: cut short, it looked whole", got, err)
	}
	gone := r.connect("stays.test:80", head)
	_ = gone.Close()
	r.upstream("silent.test:80", func(c net.Conn, br *bufio.Reader) {
		_, _ = io.Copy(io.Discard, br)
		<-over
	})
	unheard := r.connect("silent.test:80", strings.ReplaceAll(head, "stays", "silent"))
	_ = unheard.Close()
	r.connect("stays.test:80", head)
	for range 3 {
		if rec := r.outcome(); rec.Err != nil {
			t.Errorf("recorded %+v", rec.Err)
		}
	}
}

// Ports of protocols that are no HTTP are net.tunnel before anything is dialled.
func TestRawPorts(t *testing.T) {
	r := newRig(t, nil)
	for _, port := range rawPorts {
		c := r.dial()
		c.send("CONNECT db.test:" + port + " HTTP/1.1\r\nHost: db.test:" + port + "\r\n\r\n")
		c.refused(403, runtime.CodeForbidden)
		if rec := r.outcome(); rec.Action.Ref != runtime.ActionTunnel {
			t.Errorf("port %s is %s", port, rec.Action.Ref)
		}
		_ = c.Close()
	}
	if len(r.stages.dials) > 0 {
		t.Errorf("dialled %v", r.stages.dials)
	}
}

// An upstream that cannot be reached is told before the 200.
func TestDialRefused(t *testing.T) {
	r := newRig(t, nil)
	r.stages.upstreams["down.test:443"] = "127.0.0.1:1"
	c := r.dial()
	c.send("CONNECT down.test:443 HTTP/1.1\r\nHost: down.test:443\r\n\r\n")
	c.refused(502, runtime.CodeUpstream)
	c.send("CONNECT nowhere.test:443 HTTP/1.1\r\nHost: nowhere.test:443\r\n\r\n")
	c.refused(403, runtime.CodeEgressDenied)
}

// An upstream's reset is a reset for the client, not an end.
func TestRawReset(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("plain.test:80", func(c net.Conn, br *bufio.Reader) {
		_, _ = br.ReadString('\n')
		_ = c.(*net.TCPConn).SetLinger(0)
	})
	c := r.connect("plain.test:80", "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n")
	if _, err := io.ReadAll(c.br); err == nil {
		t.Error("a clean end")
	}
	if rec := r.outcome(); rec.Err == nil || rec.Err.Reason != runtime.ReasonTruncated {
		t.Errorf("recorded %+v", rec.Err)
	}
}

// No principal and nobody at all has more tunnels than the limits say; a closed
// one makes room.
func TestTunnelLimits(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		status int
		reason runtime.Reason
		hint   string // names what to raise
	}{
		"in all":        {Limits{Tunnels: 2}, 503, runtime.ReasonAtCapacity, "proxy.limits.tunnels"},
		"per principal": {Limits{PerPrincipal: 2}, 429, runtime.ReasonTooManyConnections, "proxy.limits.per_principal"},
		"descriptors":   {Limits{TunnelFiles: 4}, 429, runtime.ReasonTooManyConnections, "ulimit -n"},
		"in all, lowered": {
			Limits{Tunnels: 2, Lowered: Lowered{Tunnels: true}}, 503, runtime.ReasonAtCapacity, "ulimit -n",
		},
		"per principal, lowered": {
			Limits{PerPrincipal: 2, Lowered: Lowered{PerPrincipal: true}}, 429, runtime.ReasonTooManyConnections, "ulimit -n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.limits.QueueTimeout = 10 * time.Millisecond
			r := newRig(t, func(o *Options, _ *stages) { o.Limits = c.limits })
			r.upstream("plain.test:80", func(c net.Conn, br *bufio.Reader) { _, _ = io.Copy(io.Discard, br) })
			first, _ := r.connect("plain.test:80", "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n"), r.open("api.good.test:443")
			third := r.dial()
			third.send("CONNECT api.good.test:443 HTTP/1.1\r\nHost: api.good.test:443\r\n\r\n")
			if p := third.refused(c.status, runtime.CodeRateLimited); p.Reason != c.reason {
				t.Errorf("reason %q", p.Reason)
			} else if !strings.Contains(p.Hint, c.hint) {
				t.Errorf("hint %q", p.Hint)
			}
			r.outcome()
			_ = first.Close()
			r.outcome()
			r.eventually("a place", func() bool {
				c := r.dial()
				defer func() { _ = c.Close() }()
				c.send("CONNECT api.good.test:443 HTTP/1.1\r\nHost: api.good.test:443\r\n\r\n")
				return c.answer("CONNECT").StatusCode == 200
			})
		})
	}
}

// eventually tries until it holds.
func (r *rig) eventually(what string, holds func() bool) {
	r.t.Helper()
	runtimetest.Eventually(r.t, what, holds)
}

// websocket is an upstream that upgrades and then says what it hears.
func websocket(c net.Conn, br *bufio.Reader) {
	for line := "-"; line != "\r\n"; {
		var err error
		if line, err = br.ReadString('\n'); err != nil {
			return
		}
	}
	_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	_, _ = io.Copy(c, br)
}

const askUpgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

// upgraded asks for a websocket and waits until it is open.
func (c *client) upgraded(target, host string) *client {
	c.t.Helper()
	c.send("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n" + askUpgrade)
	if resp := c.answer("GET"); resp.StatusCode != 101 {
		c.t.Fatalf("no upgrade: %s", resp.Status)
	}
	c.alive()
	return c
}

// alive demands that the other side of an open connection says what it hears.
func (c *client) alive() {
	c.t.Helper()
	c.send("ping")
	got := make([]byte, 4)
	if _, err := io.ReadFull(c.br, got); err != nil || string(got) != "ping" {
		c.t.Fatalf("not alive: %q %v", got, err)
	}
}

// gone demands that the connection is closed, cleanly or not.
func (c *client) gone() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.br); isTimeout(err) {
		c.t.Errorf("still open after %q", rest)
	}
}

// An upgrade straight on the listener has a place like a tunnel: it counts, and
// it ends with the token that opened it.
func TestDirectUpgradesHavePlaces(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.Limits = Limits{PerPrincipal: 1, QueueTimeout: 10 * time.Millisecond} })
	r.upstream("plain.test:80", websocket)
	token := "plain.test\r\nProxy-Authorization: Bearer " + goodToken
	open := r.dial().upgraded("http://plain.test/", token)
	second := r.dial()
	second.send("GET http://plain.test/ HTTP/1.1\r\nHost: " + token + "\r\n" + askUpgrade)
	if p := second.refused(429, runtime.CodeRateLimited); p.Reason != runtime.ReasonTooManyConnections {
		t.Errorf("reason %q", p.Reason)
	}
	kept := r.dial().upgraded("http://plain.test/", "plain.test")
	r.server.Recheck(t.Context())
	open.alive()
	r.stages.mu.Lock()
	r.stages.revoked = true
	r.stages.mu.Unlock()
	r.server.Recheck(t.Context())
	open.gone()
	kept.alive()
	_ = kept.Close()
	r.eventually("the places", func() bool { return len(r.server.tunnels.callers()) == 0 })
}

// An upgrade that was not granted keeps no place.
func TestRefusedUpgradesLeave(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.Limits = Limits{PerPrincipal: 1, QueueTimeout: 10 * time.Millisecond} })
	r.upstream("plain.test:80", answering(okAnswer))
	c := r.dial()
	for range 3 {
		c.send("GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n" + askUpgrade)
		if resp, body := c.get("GET"); resp.StatusCode != 200 || body != "ok" {
			t.Fatalf("%s %q", resp.Status, body)
		}
	}
}
