package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// goodbye is how long TLS waits for a client that does not read its goodbye.
const goodbye = 5 * time.Second

// newPipedRig is a rig whose connections, made by piped, have no buffers: a client that
// does not read is in the state of one whose buffers an answer has filled to the byte.
func newPipedRig(t *testing.T, change func(*Options, *stages)) (r *rig, piped func(lent bool) *client) {
	t.Helper()
	return newPairedRig(t, net.Pipe, change)
}

// newPairedRig is a rig that is given connections of its own, by paired.
func newPairedRig(t *testing.T, pair func() (ours, theirs net.Conn), change func(*Options, *stages)) (r *rig, paired func(lent bool) *client) {
	t.Helper()
	r = newRig(t, func(o *Options, st *stages) {
		o.Limits.DrainTimeout = time.Second
		o.Peer = func(net.Conn) runtime.Peer { return runtime.Peer{Known: true, Owner: true} }
		st.execute = func(_ context.Context, _ *runtime.Call, out runtime.Responder) (runtime.Result, error) {
			return reply(out, runtime.Form{Reason: "OK"}, 200, http.Header{"Content-Length": {"2"}}, "ok")
		}
		if change != nil {
			change(o, st)
		}
	})
	ca := newTestCA(t)
	leaf, err := ca.leaf("serve.test:443")
	if err != nil {
		t.Fatal(err)
	}
	ln, served := newFeed(), make(chan error, 1)
	go func() { served <- r.server.serve(ln) }()
	t.Cleanup(func() { _ = r.server.Shutdown(context.Background()); <-served })
	return r, func(lent bool) *client {
		ours, theirs := pair()
		t.Cleanup(func() { _ = theirs.Close() })
		c := &client{t: t, Conn: theirs, br: bufio.NewReader(theirs)}
		if !lent {
			ln.put(ours)
			return c
		}
		ln.put(&Known{
			Conn: tls.Server(ours, &tls.Config{Certificates: []tls.Certificate{*leaf}}), Owner: "default/token:good",
			Caller: runtime.Caller{Token: runtime.NewSecret(goodToken), RequireToken: true},
		})
		return c.tls(&tls.Config{RootCAs: ca.roots, ServerName: "serve.test"})
	}
}

// rests asks once, in a tunnel or in plain HTTP, and leaves the connection to rest.
func (c *client) rests(r *rig, tunnel bool) {
	c.t.Helper()
	if tunnel {
		c.send("CONNECT api.good.test:443 HTTP/1.1\r\nHost: api.good.test:443\r\n\r\n")
		c.answer("CONNECT")
		inside := c.tls(&tls.Config{RootCAs: r.roots, ServerName: "api.good.test"})
		inside.send(openGood)
		inside.get("GET")
		return
	}
	c.send("GET http://plain.good.test/open HTTP/1.1\r\nHost: plain.good.test\r\n\r\n")
	c.get("GET")
}

// Clients that read nothing, each of which TLS would wait for, keep the proxy from
// ending no longer than a drain may take, and no other client from its goodbye.
func TestADrainWaitsForNoGoodbye(t *testing.T) {
	r, piped := newPipedRig(t, nil)
	for range 3 {
		piped(false).rests(r, true)
		piped(true).rests(r, true)
		piped(true).rests(r, false)
	}
	said := make(chan int, 3)
	for range cap(said) {
		polite := piped(false)
		polite.rests(r, true)
		go func() {
			rest, _ := io.ReadAll(polite.Conn)
			said <- len(rest)
		}()
	}
	begun := time.Now()
	_ = r.server.Shutdown(context.Background())
	if took := time.Since(begun); took > 2*goodbye {
		t.Errorf("the end took %v", took)
	}
	for range cap(said) {
		if <-said == 0 {
			t.Error("a client that reads was told no goodbye")
		}
	}
}

// A lock ends what it ends at once: clients of a lent proxy that read nothing, each of
// which TLS would wait for, keep no other's tunnel open.
func TestALockWaitsForNoGoodbye(t *testing.T) {
	var l lock
	r, piped := newPipedRig(t, func(o *Options, _ *stages) { o.Locked = l.why.Load })
	for range 4 {
		piped(true).rests(r, true)
	}
	l.set(true)
	begun := time.Now()
	r.eventually("the end of the tunnels", func() bool {
		r.server.Recheck(t.Context())
		return r.server.tunnels.seats.In() == 0
	})
	if took := time.Since(begun); took > goodbye {
		t.Errorf("the lock took %v", took)
	}
}

// So does a guard that lets a connection be no more.
func TestAFallenTunnelWaitsForNoGoodbye(t *testing.T) {
	ends := make(chan func(), 4)
	r, piped := newPipedRig(t, func(o *Options, st *stages) {
		throughTunnel(t, o, st, TunnelOptions{Dialer: st, Peek: time.Second, Hold: func(_, _ string, _, _ bool, end func()) func() {
			ends <- end
			return func() {}
		}})
	})
	r.upstream("other.test:80", func(_ net.Conn, br *bufio.Reader) { _, _ = io.Copy(io.Discard, br) })
	for range cap(ends) {
		c := piped(true)
		c.send("CONNECT other.test:80 HTTP/1.1\r\nHost: other.test:80\r\n\r\n")
		c.answer("CONNECT")
		c.send("GET / HTTP/1.1\r\nHost: other.test\r\n\r\n")
	}
	begun := time.Now()
	for range cap(ends) {
		(<-ends)()
	}
	if took := time.Since(begun); took > goodbye {
		t.Errorf("the ends took %v", took)
	}
}

// socketPair makes both ends of a connection that can be reset.
func socketPair(t *testing.T) (pair func() (ours, theirs net.Conn)) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return func() (ours, theirs net.Conn) {
		theirs, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if ours, err = ln.Accept(); err != nil {
			t.Fatal(err)
		}
		return ours, theirs
	}
}

// ending reads to the end and tells how that came.
func (c *client) ending(ends chan<- error) {
	_, err := io.ReadAll(c.br)
	ends <- err
}

// A drain resets no raw tunnel that is quiet, nor one that its client has half ended: a
// reset takes from a program what it has not read yet.
func TestADrainResetsNoQuietTunnel(t *testing.T) {
	r, paired := newPairedRig(t, socketPair(t), func(o *Options, _ *stages) { o.Limits.DrainTimeout = patience })
	over := make(chan struct{})
	defer close(over)
	ends, halved := make(chan error, 8), make(chan struct{}, 8)
	r.upstream("other.test:80", func(_ net.Conn, br *bufio.Reader) {
		_, _ = io.Copy(io.Discard, br)
		halved <- struct{}{}
		<-over
	})
	for i := range cap(ends) {
		c := paired(i%2 == 0)
		c.send("CONNECT other.test:80 HTTP/1.1\r\nHost: other.test:80\r\n\r\n")
		c.answer("CONNECT")
		c.send("GET / HTTP/1.1\r\nHost: other.test\r\n\r\n")
		if i < 2 {
			_ = closeWrite(c.Conn)
			<-halved
		}
		go c.ending(ends)
	}
	r.eventually("the tunnels", func() bool {
		return r.server.tunnels.files.In() == raw*int64(cap(ends)) && r.server.tunnels.splicing()
	})
	_ = r.server.Shutdown(context.Background())
	for range cap(ends) {
		if err := <-ends; err != nil {
			t.Errorf("a quiet tunnel ended with %v", err)
		}
	}
}

// Nor is a tunnel reset that makes room for another of its principal.
func TestATunnelThatMakesRoomIsNotReset(t *testing.T) {
	r, paired := newPairedRig(t, socketPair(t), func(o *Options, _ *stages) {
		o.Limits.PerPrincipal, o.Limits.RestTime = 1, time.Millisecond
	})
	rests := paired(true)
	rests.rests(r, true)
	ends := make(chan error, 1)
	go rests.ending(ends)
	paired(true).rests(r, true)
	if err := <-ends; err != nil {
		t.Errorf("a tunnel that made room ended with %v", err)
	}
}
