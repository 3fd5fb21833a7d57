package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/runtime"
)

// An answer that comes while the client still sends reaches it; then the
// connection ends, since what follows on it cannot be told apart.
func TestEarlyAnswersReachAClientThatStillSends(t *testing.T) {
	for name, framing := range map[string]string{"length": "Content-Length: 1000000\r\n\r\nhalf", "short": "Content-Length: 20\r\n\r\nhalf", "chunked": "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"} {
		t.Run(name, func(t *testing.T) {
			reading := make(chan error, 1)
			r := newRelayRig(t, func(_ context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error) {
				half := make([]byte, 4)
				if _, err := io.ReadFull(call.Request.Raw.Body, half); err != nil {
					return runtime.Result{}, err
				}
				b := call.Request.Raw.Body.(*inbound)
				go func() { _, err := b.Read(make([]byte, 1)); reading <- err }()
				for b.mu.TryLock() { // until it reads
					b.mu.Unlock()
					goruntime.Gosched()
				}
				return reply(out, runtime.Form{Reason: "Too Large"}, 413, http.Header{"Content-Length": {"2"}}, "no")
			})
			inside := r.open("api.good.test:443")
			inside.send("POST /open HTTP/1.1\r\nHost: api.good.test\r\nContent-Type: text/plain\r\n" + framing)
			if resp, body := inside.get("POST"); resp.StatusCode != 413 || body != "no" || !resp.Close {
				t.Errorf("%s %q, says that the connection ends: %t", resp.Status, body, resp.Close)
			}
			inside.ended()
			if err := <-reading; err == nil {
				t.Error("the body goes on after the request")
			}
		})
	}
}

// A body that nobody wanted is read to its end, and the next request served.
func TestTheNextRequestFollowsABodyThatNobodyRead(t *testing.T) {
	r := newRelayRig(t, func(_ context.Context, _ *runtime.Call, out runtime.Responder) (runtime.Result, error) {
		return reply(out, runtime.Form{Reason: "OK"}, 200, http.Header{"Content-Length": {"2"}}, "ok")
	})
	inside := r.open("api.good.test:443")
	for _, framing := range []string{"Content-Length: 4\r\n\r\nGET ", "Transfer-Encoding: chunked\r\n\r\n4\r\nGET \r\n0\r\nX: y\r\n\r\n"} {
		inside.send("POST /open HTTP/1.1\r\nHost: api.good.test\r\n" + framing + openGood)
		for range 2 {
			if resp, body := inside.get("GET"); resp.StatusCode != 200 || body != "ok" {
				t.Errorf("%s %q", resp.Status, body)
			}
		}
	}
}

// steered is a connection whose deadlines a test can see, and hold up.
type steered struct {
	net.Conn
	moved func(by time.Time)
}

func (s *steered) SetReadDeadline(by time.Time) error {
	s.moved(by)
	return s.Conn.SetReadDeadline(by)
}

// inboundOf is a body of a request on a connection, and the client's end of it.
func inboundOf(t *testing.T, f http1.Framing, moved func(time.Time)) (b *inbound, far net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	far, err = net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	r := &relay{s: &Server{o: Options{Limits: Limits{IdleTimeout: time.Hour}}}, c: &conn{Conn: &steered{near, moved}, raw: near}}
	r.br = bufio.NewReader(r.c.Conn)
	return &inbound{r: r, a: &relayed{r: r}, body: http1.NewBody(r.br, f)}, far
}

// The end of a request interrupts a read of its body at every moment, that
// before the read moves the deadline too.
func TestTheEndOfARequestInterruptsAReadAtAnyMoment(t *testing.T) {
	armed, interrupted := make(chan struct{}), make(chan struct{})
	b, _ := inboundOf(t, http1.Framing{Length: 9}, func(by time.Time) {
		switch {
		case by.After(time.Now()):
			close(armed)
			<-interrupted
		case by.Unix() == 1:
			defer close(interrupted)
		}
	})
	read, finished := make(chan error, 1), make(chan bool, 1)
	go func() { _, err := b.Read(make([]byte, 9)); read <- err }()
	<-armed
	go func() { finished <- b.finish(&relayed{close: true}) }()
	for _, what := range []string{"the read", "the end"} {
		select {
		case err := <-read:
			if err == nil {
				t.Error("a read without bytes")
			}
		case more := <-finished:
			if more {
				t.Error("half a body is no place for the next request")
			}
		case <-time.After(patience):
			t.Fatalf("%s hangs", what)
		}
	}
}

// After its end a body leaves the connection alone: the watch reads it.
func TestAReadAfterTheEndLeavesTheConnectionAlone(t *testing.T) {
	var moves atomic.Int32
	b, far := inboundOf(t, http1.Framing{Length: 2}, func(time.Time) { moves.Add(1) })
	if _, err := io.WriteString(far, "ok"); err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(b); err != nil || string(body) != "ok" {
		t.Fatalf("%q %v", body, err)
	}
	b.r.reads.Forget()
	before := moves.Load()
	if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("%d %v", n, err)
	}
	if moves.Load() != before {
		t.Error("the deadline was moved")
	}
	if !b.finish(&relayed{}) {
		t.Error("the next request does not follow")
	}
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, errEnded) {
		t.Errorf("after the request: %v", err)
	}
}

// In the middle of a line between two chunks it is the idle time that runs, not
// what was left of that of the head.
func TestChunksOfARequestHaveTheirOwnTime(t *testing.T) {
	moved := make(chan time.Time, 9)
	b, far := inboundOf(t, http1.Framing{Chunked: true}, func(by time.Time) { moved <- by })
	if _, err := io.WriteString(far, "2"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.r.br.Peek(1); err != nil { // it came with the head
		t.Fatal(err)
	}
	go func() {
		if by := <-moved; time.Until(by) > 50*time.Minute {
			_, _ = io.WriteString(far, "\r\nok\r\n0\r\n\r\n")
		}
		_ = far.(*net.TCPConn).CloseWrite()
	}()
	if body, err := io.ReadAll(b); err != nil || string(body) != "ok" {
		t.Errorf("%q %v", body, err)
	}
}

// An upgrade is not taken while a body is still read: two would read from one connection.
func TestNoUpgradeInTheMiddleOfABody(t *testing.T) {
	a := &relayed{switching: http.Header{}, status: 101, body: &inbound{}}
	if c, err := a.Upgrade(); err == nil || c != nil {
		t.Errorf("upgraded: %v", err)
	}
}
