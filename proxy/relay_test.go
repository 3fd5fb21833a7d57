package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/runtime"
)

// execute is what stands in for the backend in a test of the relay engine.
type execute = func(ctx context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error)

// newRelayRig is a rig of the relay engine whose backend is do.
func newRelayRig(t *testing.T, do execute) *rig {
	t.Helper()
	return newRig(t, func(o *Options, st *stages) { o.Engine, st.execute = EngineRelay, do })
}

// reply answers with a form, fields and a body.
func reply(out runtime.Responder, form runtime.Form, status int, h http.Header, body string) (runtime.Result, error) {
	if v, ok := out.(runtime.Verbatim); ok {
		v.Like(form)
	}
	err := out.Start(status, h)
	if err == nil && body != "" {
		_, err = io.WriteString(out, body)
	}
	return runtime.Result{Status: status}, err
}

// raw reads what the connection gives up to an end, or to its own end.
func (c *client) raw(end string) string {
	c.t.Helper()
	var text strings.Builder
	for end == "" || !strings.HasSuffix(text.String(), end) {
		b, err := c.br.ReadByte()
		if err == io.EOF && end == "" {
			break
		}
		if err != nil {
			c.t.Fatalf("after %q: %v", text.String(), err)
		}
		text.WriteByte(b)
	}
	return text.String()
}

func TestHeadsPassAsTheyWereWritten(t *testing.T) {
	order := make(chan []string, 1)
	r := newRelayRig(t, func(_ context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error) {
		order <- call.Request.Raw.Order
		form := runtime.Form{Reason: "Alles  gut", Order: []string{"x-b", "SERVER", "content-LENGTH", "Keep-Alive", "X-b", "x-b"}}
		return reply(out, form, 200, http.Header{"X-B": {"1", "2"}, "Server": {"a"}, "Content-Length": {"2"}, "Keep-Alive": {"5"}, "X-New": {"3"}}, "ok")
	})
	inside := r.open("api.good.test:443")
	inside.send("GET /open HTTP/1.1\r\nx-a: 1\r\nHOST: api.good.test\r\nAccept: b\r\nX-A: 2\r\n\r\n")
	if got := strings.Join(<-order, " "); got != "x-a HOST Accept X-A" {
		t.Errorf("the request's order: %s", got)
	}
	if got := inside.raw("ok"); got != "HTTP/1.1 200 Alles  gut\r\nx-b: 1\r\nSERVER: a\r\ncontent-LENGTH: 2\r\nX-b: 2\r\nX-New: 3\r\n\r\nok" {
		t.Errorf("the answer: %q", got)
	}
}

// A client of version 1.0 knows neither chunks nor connections that go on.
func TestAnswersToVersion10EndWithTheConnection(t *testing.T) {
	r := newRelayRig(t, func(_ context.Context, _ *runtime.Call, out runtime.Responder) (runtime.Result, error) {
		_ = out.Informational(103, http.Header{"Link": {"x"}})
		defer out.Trailer(http.Header{"X-Sum": {"1"}})
		return reply(out, runtime.Form{Reason: "OK"}, 200, http.Header{"Trailer": {"X-Sum"}}, "all of it")
	})
	inside := r.open("api.good.test:443")
	inside.send("GET /open HTTP/1.0\r\nHost: api.good.test\r\nConnection: keep-alive\r\n\r\n")
	if got := inside.raw(""); got != "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it" {
		t.Errorf("%q", got)
	}
}

// relayOf waits for a relay that is in a state, which it looks at under the
// lock of all.
func (r *rig) relayOf(t *testing.T, what string, state func(*relay) bool) *relay {
	t.Helper()
	for late := time.After(patience); ; {
		var found *relay
		r.server.relays.mu.Lock()
		for one := range r.server.relays.open {
			if state(one) {
				found = one
			}
		}
		r.server.relays.mu.Unlock()
		if found != nil {
			return found
		}
		select {
		case <-late:
			t.Fatalf("waited for %s in vain", what)
		case <-time.After(time.Millisecond):
		}
	}
}

func watched(one *relay) bool {
	one.watch.mu.Lock()
	defer one.watch.mu.Unlock()
	return one.watch.reading != nil
}

// A client that goes away while its request waits ends it, also when it has sent
// more requests in the meantime.
func TestDisconnectsAreNoticedWhileARequestWaits(t *testing.T) {
	for name, ahead := range map[string]string{"alone": "", "pipelined": openGood + openGood, "half a request": openGood[:10]} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			r := newRelayRig(t, func(ctx context.Context, _ *runtime.Call, _ runtime.Responder) (runtime.Result, error) {
				<-ctx.Done()
				close(ended)
				return runtime.Result{}, &runtime.Error{Code: runtime.CodeCanceled, Msg: "gone", Err: ctx.Err()}
			})
			inside := r.open("api.good.test:443")
			inside.send(openGood + ahead)
			r.relayOf(t, "the watch", watched)
			_ = inside.Close()
			select {
			case <-ended:
			case <-time.After(patience):
				t.Error("nobody noticed")
			}
			r.outcome()
		})
	}
}

// What comes while a connection is watched is the next requests, in order; the
// watch leaves no deadline behind.
func TestTheWatchLeavesTheNextRequestsAlone(t *testing.T) {
	answers := make(chan string)
	r := newRelayRig(t, func(_ context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error) {
		text := <-answers + call.Request.Target.Path
		return reply(out, runtime.Form{Reason: "OK"}, 200, http.Header{}, text)
	})
	inside := r.open("api.good.test:443")
	ask := func(path string) {
		inside.send("GET /open/" + path + " HTTP/1.1\r\nHost: api.good.test\r\n\r\n")
	}
	expect := func(want string) {
		t.Helper()
		if _, body := inside.get("GET"); body != want {
			t.Errorf("%q, want %q", body, want)
		}
	}
	ask("1")
	one := r.relayOf(t, "the watch", watched)
	ask("2")
	ask("3")
	for _, n := range []string{"1", "2", "3"} {
		answers <- "a"
		expect("a/open/" + n)
	}
	ask("4") // after all had been quiet
	answers <- "b"
	expect("b/open/4")
	r.relayOf(t, "the end of the request", func(other *relay) bool { return other == one && one.phase.Load() == relayAwaited })
}

// An answer that comes while the client still sends reaches it; then the
// connection ends, since what follows on it cannot be told apart.
func TestEarlyAnswersReachAClientThatStillSends(t *testing.T) {
	for name, framing := range map[string]string{"length": "Content-Length: 1000000\r\n\r\nhalf", "chunked": "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"} {
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
			if resp, body := inside.get("POST"); resp.StatusCode != 413 || body != "no" {
				t.Errorf("%s %q", resp.Status, body)
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

// An answer that breaks off has no clean end, whatever its framing.
func TestBrokenAnswersHaveNoCleanEnd(t *testing.T) {
	for name, h := range map[string]http.Header{"length": {"Content-Length": {"1000"}}, "chunked": {}, "held head": {"Content-Length": {"9"}}} {
		t.Run(name, func(t *testing.T) {
			r := newRelayRig(t, func(_ context.Context, _ *runtime.Call, out runtime.Responder) (runtime.Result, error) {
				text := "part"
				if name == "held head" {
					text = ""
				}
				res, _ := reply(out, runtime.Form{Reason: "OK", Ready: true}, 200, h, text)
				return res, &runtime.Error{Code: runtime.CodeUpstream, Reason: runtime.ReasonTruncated, Msg: "reset"}
			})
			inside := r.open("api.good.test:443")
			inside.send(openGood + openGood)
			resp := inside.answer("GET")
			if body, err := io.ReadAll(resp.Body); err == nil {
				t.Errorf("a clean end after %q", body)
			}
			inside.ended()
			r.outcome()
			if n := len(r.stages.outcomes); n > 0 {
				t.Errorf("%d requests more were served on the connection", n)
			}
		})
	}
}

// A head that waits for the body goes out when the upstream makes it wait.
func TestAHeadGoesOutWhenTheBodyIsWaitedFor(t *testing.T) {
	for name, h := range map[string]http.Header{"length": {"Content-Length": {"2"}}, "chunked": {}} {
		t.Run(name, func(t *testing.T) {
			seen := make(chan struct{})
			r := newRelayRig(t, func(_ context.Context, _ *runtime.Call, out runtime.Responder) (runtime.Result, error) {
				_, err := reply(out, runtime.Form{Reason: "OK", Ready: true}, 200, h, "")
				out.(runtime.Verbatim).Hurry()
				select {
				case <-seen:
				case <-time.After(patience):
					t.Error("the head was kept")
				}
				if err == nil {
					_, err = io.WriteString(out, "ok")
				}
				return runtime.Result{Status: 200}, err
			})
			inside := r.open("api.good.test:443")
			for range 2 {
				inside.send(openGood)
				resp := inside.answer("GET")
				seen <- struct{}{}
				if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "ok" {
					t.Errorf("%q %v", body, err)
				}
			}
		})
	}
}

// A connection that waits for a request holds none of the buffers that its last
// answer needed.
func TestWaitingConnectionsHoldNoLargeBuffers(t *testing.T) {
	large := strings.Repeat("x", 64<<10)
	r := newRelayRig(t, func(_ context.Context, _ *runtime.Call, out runtime.Responder) (runtime.Result, error) {
		return reply(out, runtime.Form{Reason: "OK"}, 200, http.Header{}, large)
	})
	inside := r.open("api.good.test:443")
	for range 3 { // the second and third with the buffer of the one before
		inside.send("GET /open HTTP/1.1\r\nHost: api.good.test\r\nX: " + large[:32<<10] + "\r\n\r\n")
		if _, body := inside.get("GET"); body != large {
			t.Fatalf("%d bytes", len(body))
		}
		one := r.relayOf(t, "the end of the request", func(one *relay) bool {
			return one.c.tunnel != nil && one.asked.Load() > 0 && one.phase.Load() == relayAwaited
		})
		if n := cap(one.out) + cap(one.head); n > 2*relayBuffer {
			t.Errorf("%d bytes are held", n)
		}
	}
}

// A drain ends the connections that wait, and the busy ones after an answer that
// says so.
func TestDrainsSayThatTheConnectionEnds(t *testing.T) {
	arrived, finish := make(chan struct{}, 1), make(chan struct{})
	r := newRelayRig(t, func(_ context.Context, _ *runtime.Call, out runtime.Responder) (runtime.Result, error) {
		arrived <- struct{}{}
		<-finish
		return reply(out, runtime.Form{Reason: "OK"}, 200, http.Header{"Content-Length": {"2"}}, "ok")
	})
	busy, idle := r.open("api.good.test:443"), r.open("api.good.test:443")
	busy.send(openGood + openGood)
	<-arrived
	down := make(chan error, 1)
	go func() { down <- r.server.Shutdown(context.Background()) }()
	idle.ended()
	close(finish)
	if got := busy.raw("ok"); got != "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok" {
		t.Errorf("%q", got)
	}
	busy.ended()
	if err := <-down; err != nil {
		t.Error(err)
	}
	if n := len(r.stages.outcomes); n != 1 {
		t.Errorf("%d requests were served, want 1", n)
	}
}

// A connection that net/http serves, since it asked for a page of ours before, keeps no
// other from being told of a drain.
func TestADrainDoesNotWaitForTheOtherServer(t *testing.T) {
	arrived, finish := make(chan struct{}, 1), make(chan struct{})
	r := newRelayRig(t, func(_ context.Context, _ *runtime.Call, out runtime.Responder) (runtime.Result, error) {
		arrived <- struct{}{}
		<-finish
		return reply(out, runtime.Form{Reason: "OK"}, 200, http.Header{"Content-Length": {"2"}}, "ok")
	})
	idle, busy := r.open("api.good.test:443"), r.dial()
	busy.send("GET /healthz HTTP/1.1\r\nHost: " + r.addr + "\r\n\r\n")
	busy.get("GET")
	busy.send("GET http://plain.good.test/open HTTP/1.1\r\nHost: plain.good.test\r\n\r\n")
	<-arrived
	down := make(chan error, 1)
	go func() { down <- r.server.Shutdown(context.Background()) }()
	_ = idle.SetReadDeadline(time.Now().Add(2 * time.Second)) // well before a drain is over
	idle.ended()
	close(finish)
	if _, body := busy.get("GET"); body != "ok" {
		t.Errorf("%q", body)
	}
	if err := <-down; err != nil {
		t.Error(err)
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

// What follows bytes that are not HTTP is no request, whatever it looks like.
func TestWhatIsNoRequestEndsTheConnection(t *testing.T) {
	r := newRelayRig(t, nil)
	inside := r.open("api.good.test:443")
	inside.send("\x00\x01\x02\r\n\r\n" + openGood)
	inside.refused(400, runtime.CodeInvalidInput)
	inside.ended()
}

// An upgrade is not taken while a body is still read: two would read from one connection.
func TestNoUpgradeInTheMiddleOfABody(t *testing.T) {
	a := &relayed{switching: http.Header{}, status: 101, body: &inbound{}}
	if c, err := a.Upgrade(); err == nil || c != nil {
		t.Errorf("upgraded: %v", err)
	}
}
