package proxy

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

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
	t.Parallel()
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
	r := newRig(t, func(o *Options, st *stages) {
		o.Engine, o.Limits.DrainTimeout = EngineRelay, 2*patience
		st.execute = func(_ context.Context, _ *runtime.Call, out runtime.Responder) (runtime.Result, error) {
			arrived <- struct{}{}
			<-finish
			return reply(out, runtime.Form{Reason: "OK"}, 200, http.Header{"Content-Length": {"2"}}, "ok")
		}
	})
	idle, busy := r.open("api.good.test:443"), r.dial()
	busy.send("GET /healthz HTTP/1.1\r\nHost: " + r.addr + "\r\n\r\n")
	busy.get("GET")
	busy.send("GET http://plain.good.test/open HTTP/1.1\r\nHost: plain.good.test\r\n\r\n")
	<-arrived
	down := make(chan error, 1)
	go func() { down <- r.server.Shutdown(context.Background()) }()
	_ = idle.SetReadDeadline(time.Now().Add(patience)) // well before a drain is over
	idle.ended()
	close(finish)
	if _, body := busy.get("GET"); body != "ok" {
		t.Errorf("%q", body)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}
