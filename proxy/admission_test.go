package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/runtime"
)

// stalled is an upstream that reads a request and says nothing until it may, or
// the test ends.
func (r *rig) stalled(may <-chan struct{}) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		select {
		case <-may:
		case <-r.t.Context().Done():
		}
		_, _ = io.WriteString(c, okAnswer)
	}
}

// asked sends a request in a tunnel of its own, and waits until the upstream
// side of it was dialled.
func (r *rig) asked(fields ...string) *client {
	r.t.Helper()
	inside := r.open("api.good.test:443", fields...)
	before := r.dials()
	inside.send(openGood)
	r.eventually("the request", func() bool { return r.dials() > before })
	return inside
}

func (r *rig) dials() int {
	r.stages.mu.Lock()
	defer r.stages.mu.Unlock()
	return len(r.stages.dials)
}

const asGood = "Proxy-Authorization: Bearer " + goodToken

// A principal with as many requests in flight as it may have waits for one to
// end; others do not wait for it. What has waited too long is told when to come
// again, and recorded.
func TestRequestsInFlightAreBoundedPerPrincipal(t *testing.T) {
	may := make(chan struct{})
	full := func(queue time.Duration) (r *rig, first, second *client) {
		r = newRig(t, func(o *Options, _ *stages) { o.Limits = Limits{RequestsPerPrincipal: 2, QueueTimeout: queue} })
		r.upstream("api.good.test:443", r.stalled(may))
		return r, r.asked(), r.asked()
	}
	r, _, _ := full(time.Second)
	late := r.open("api.good.test:443")
	late.send(openGood)
	r.asked(asGood)
	if p := late.refused(429, runtime.CodeRateLimited); p.Reason != runtime.ReasonTooManyRequests || p.Hint == "" {
		t.Errorf("%+v", p)
	}
	if rec := r.outcome(); rec.Err == nil || rec.Err.Reason != runtime.ReasonTooManyRequests || rec.Err.RetryAfter == 0 {
		t.Errorf("recorded %+v", rec.Err)
	}
	r, first, second := full(patience)
	waiting := r.open("api.good.test:443")
	waiting.send(openGood)
	r.eventually("the queue", func() bool { return r.server.admission.requests.Waiting() == 1 })
	close(may)
	for _, c := range []*client{first, second, waiting} {
		if resp, _ := c.get("GET"); resp.StatusCode != 200 {
			t.Error(resp.Status)
		}
	}
}

// Who lacks room is told what to raise, and no setting that the limit of open files lowered.
func TestALoweredLimitOfRequestsNamesTheLimitOfOpenFiles(t *testing.T) {
	l := Limits{Requests: 2, RequestsPerPrincipal: 1, QueueTimeout: time.Millisecond}
	full := func(l Limits, owner string) string {
		a := newAdmission(l.withDefaults())
		for _, in := range []string{"a", "b"} {
			if e := a.enter(t.Context(), in); e != nil {
				t.Fatal(e)
			}
		}
		return a.enter(t.Context(), owner).Hint
	}
	lowered := l
	lowered.Lowered = Lowered{Requests: true, RequestsPerPrincipal: true}
	for owner, setting := range map[string]string{"a": "proxy.limits.requests_per_principal", "c": "proxy.limits.requests"} {
		if hint := full(l, owner); !strings.HasSuffix(hint, setting) {
			t.Errorf("%q", hint)
		}
		if hint := full(lowered, owner); !strings.Contains(hint, "ulimit -n") || strings.Contains(hint, "proxy.limits") {
			t.Errorf("%q", hint)
		}
	}
}

// Where there is no such limit, as on Windows, a share of the descriptors is one of the tunnels.
func TestWithoutALimitOfOpenFilesNoneIsNamed(t *testing.T) {
	tunnels := newTunnels(Limits{Tunnels: 3, QueueTimeout: time.Millisecond}.withDefaults())
	var full *runtime.Error
	for range 3 {
		_, full = tunnels.enter(t.Context(), runtime.Caller{}, runtime.Principal{ID: "a"}, raw)
	}
	if full == nil || full.Reason != runtime.ReasonTooManyConnections || !strings.HasSuffix(full.Hint, "proxy.limits.tunnels") {
		t.Errorf("%+v", full)
	}
}

// In all, the same; then it is not the caller's fault.
func TestRequestsInFlightAreBoundedInAll(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.Limits = Limits{Requests: 1, QueueTimeout: 10 * time.Millisecond} })
	may := make(chan struct{})
	r.upstream("plain.test:80", r.stalled(may))
	r.upstream("api.good.test:443", r.stalled(may))
	defer close(may)
	r.asked(asGood)
	for range 2 { // a place that was not given is not lost either
		direct := r.dial()
		direct.send("GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n")
		if p := direct.refused(503, runtime.CodeRateLimited); p.Reason != runtime.ReasonAtCapacity {
			t.Errorf("%+v", p)
		}
	}
}

// 200 upstreams that stall, all of one principal, leave another principal
// untouched, and the same one's requests to other upstreams too. They end with
// their clients, however long the upstreams would have stalled.
func TestStalledUpstreamsLeaveOthersUntouched_CR008(t *testing.T) {
	r := newRig(t, nil)
	may := make(chan struct{})
	r.upstream("api.good.test:443", r.stalled(may))
	defer close(may)
	var opening sync.WaitGroup
	clients := make([]*client, 200)
	for i := range clients {
		opening.Go(func() { clients[i] = r.open("api.good.test:443", asGood); clients[i].send(openGood) })
	}
	opening.Wait()
	r.eventually("200 stalled requests", func() bool { return r.dials() == 200 })
	r.upstream("plain.test:80", answering(okAnswer))
	for _, fields := range []string{"", asGood + "\r\n"} {
		c := r.dial()
		c.send("GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n" + fields + "\r\n")
		if resp, _ := c.get("GET"); resp.StatusCode != 200 {
			t.Errorf("%q: %s", fields, resp.Status)
		}
	}
	for _, c := range clients {
		_ = c.Close()
	}
	r.eventually("their end", func() bool { return r.server.admission.requests.Of("default/token:good") == 0 })
}

// A principal whose tunnels are all taken gets room by the end of the one that
// has rested longest; one with a request in it stays, and so do those of others.
func TestRestingTunnelsMakeRoom(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.Limits = Limits{PerPrincipal: 3, RestTime: time.Hour} })
	may := make(chan struct{})
	r.upstream("api.good.test:443", r.stalled(may))
	other := r.open("api.good.test:443", asGood)
	busy, oldest, newer := r.asked(), r.open("api.good.test:443"), r.open("api.good.test:443")
	const owner = "default/local:1"
	tunnels := r.server.tunnels
	own := func(do func(*place)) {
		tunnels.mu.Lock()
		defer tunnels.mu.Unlock()
		for p := range tunnels.open {
			if p.owner == owner {
				do(p)
			}
		}
	}
	var longest *place
	own(func(p *place) {
		if p.running.Load() == 0 && (longest == nil || p.moved.Load() < longest.moved.Load()) {
			longest = p
		}
	})
	longest.moved.Add(-int64(2 * time.Hour)) // as if it alone had rested for so long
	fresh := r.open("api.good.test:443")
	oldest.ended()
	close(may)
	for name, c := range map[string]*client{"busy": busy, "newer": newer, "other": other} {
		if c != busy {
			c.send(openGood)
		}
		if resp, _ := c.get("GET"); resp.StatusCode != 200 {
			t.Errorf("%s: %s", name, resp.Status)
		}
	}
	own(func(p *place) { p.moved.Add(-int64(2 * time.Hour)) })
	tunnels.closeResting(owner)
	closing := 0
	own(func(p *place) {
		if p.running.Load() < 0 {
			closing++
		}
	})
	if closing > 1 {
		t.Errorf("%d tunnels are closed for one", closing)
	}
	fresh.ended() // the others had a request since
}

// A tunnel that is being closed to make room takes no request any more, so that
// none is cut off half done.
func TestClosingTunnelTakesNoRequest(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.Limits.RestTime = time.Nanosecond })
	who := runtime.Principal{ID: "local:1", Tenant: runtime.DefaultTenant}
	seat, full := r.server.tunnels.enter(t.Context(), runtime.Caller{}, who, intercepted)
	if full != nil {
		t.Fatal(full)
	}
	defer seat.leave()
	if !seat.begin() {
		t.Fatal("a new tunnel takes no request")
	}
	r.server.tunnels.closeResting(seat.owner)
	seat.end()
	if !seat.begin() {
		t.Fatal("a tunnel with a request in it was closed")
	}
	seat.end()
	r.eventually("rest", func() bool { r.server.tunnels.closeResting(seat.owner); return seat.running.Load() < 0 })
	c := &conn{tunnel: &tunnel{seat: seat}}
	if owner, e := r.server.begin(t.Context(), c, &runtime.Request{}); owner != "" || e == nil || e.Code != runtime.CodeCanceled {
		t.Errorf("%q, %v", owner, e)
	}
}

// Over HTTP/2 a request that comes while its tunnel is being closed is one that clients send
// again by themselves: it has not been answered, nor done.
func TestARequestTooLateForItsTunnelIsRefusedAsAStream(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("api.good.test:443", answering(okAnswer))
	c := r.openH2("api.good.test:443")
	c.get("GET", "/open")
	r.outcome()
	tunnels := r.server.tunnels
	tunnels.mu.Lock()
	for p := range tunnels.open {
		p.running.Store(math.MinInt32 / 2) // as closeResting does, before it closes the connection
	}
	tunnels.mu.Unlock()
	for _, body := range []io.Reader{nil, strings.NewReader("{}")} {
		_, err := c.RoundTrip(c.request("POST", "/open", body))
		if e := (http2.StreamError{}); !errors.As(err, &e) || e.Code != http2.ErrCodeRefusedStream {
			t.Errorf("it ended with %v", err)
		}
		if e := r.outcome().Err; e == nil || e.Code != runtime.CodeCanceled {
			t.Errorf("recorded as %v", e)
		}
	}
}

// What the bodies of one principal's requests take in memory while they are
// read and until the requests end is bounded; another's small one passes.
func TestHeldBodiesAreBounded(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) {
		o.Limits = Limits{BodyBytes: 100, HeldPerPrincipal: 150, Held: 1000, QueueTimeout: time.Second}
	})
	may := make(chan struct{})
	r.upstream("api.good.test:443", r.stalled(may))
	post := func(length, body string, fields ...string) *client {
		c := r.open("api.good.test:443", fields...)
		c.send("POST /judged HTTP/1.1\r\nHost: api.good.test\r\nContent-Type: application/json\r\n" + length + "\r\n\r\n" + body)
		return c
	}
	held := func(owner string, n int64) {
		t.Helper()
		r.eventually(fmt.Sprintf("%d bytes held for %s", n, owner), func() bool { return r.server.admission.bodies.Of(owner) == n })
	}
	const local, good = "default/local:1", "default/token:good"
	dripping := post("Content-Length: 100", "{")
	held(local, 100)
	late := post("Transfer-Encoding: chunked", "2\r\n{}\r\n0\r\n\r\n") // could become 100 bytes long
	small := post("Transfer-Encoding: chunked", "2\r\n{}\r\n0\r\n\r\n", asGood)
	held(good, 2) // of 100 that it might have taken
	if p := late.refused(429, runtime.CodeRateLimited); p.Reason != runtime.ReasonTooManyRequests {
		t.Errorf("%+v", p)
	}
	_ = dripping.Close()
	held(local, 0)
	close(may)
	if resp, _ := small.get("POST"); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
	held(good, 0)
}

// Parsing takes turns too: a document being taken apart is many times its text.
func TestParsingIsBounded(t *testing.T) {
	a := newAdmission(Limits{QueueTimeout: time.Millisecond}.withDefaults())
	if e := a.parse(t.Context(), "a", parsingByOne, func() {
		if e := a.parse(t.Context(), "a", 1, func() {}); e == nil || e.Status() != 429 || e.RetryAfter == 0 {
			t.Errorf("one owner: %v", e)
		}
		if e := a.parse(t.Context(), "b", parsingByOne, func() {}); e != nil {
			t.Errorf("another owner: %v", e)
		}
	}); e != nil {
		t.Error(e)
	}
}

// A body that must be read whole and drips has a time for all of it, however
// steadily it moves.
func TestDrippingBodyEnds(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.Limits.BodyTimeout = 300 * time.Millisecond })
	c := r.open("api.good.test:443")
	c.send("POST /judged HTTP/1.1\r\nHost: api.good.test\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n[")
	stop := drip(c, "1,")
	defer stop()
	c.refused(504, runtime.CodeTimeout)
}

// The same on a stream of HTTP/2, whose deadlines are its connection's.
func TestDrippingBodyOfAStreamEnds(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.Limits.BodyTimeout = 300 * time.Millisecond })
	c := r.rawH2("api.good.test:443")
	id := c.Open(false, ":method POST", ":scheme https", ":authority api.good.test", ":path /judged", "content-type application/json", "content-length 100000")
	_ = c.WriteData(id, false, []byte("["))
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				_ = c.WriteData(id, false, []byte("1,"))
			}
		}
	}()
	status, _, _, err := c.wait(id)
	close(stop)
	<-ended
	if status != "504" || err != nil {
		t.Errorf("%s %v", status, err)
	}
}

// Connections whose heads drip keep no others of the same peer out: the one
// that has been at it for longest goes.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	owner := runtime.Peer{Known: true, UID: 1000, Owner: true}
	r := newRig(t, func(o *Options, _ *stages) {
		o.Limits = Limits{Connections: 3, HeadTimeout: time.Minute}
		o.Peer = func(net.Conn) runtime.Peer { return owner }
	})
	r.upstream("plain.test:80", func(c net.Conn, br *bufio.Reader) { _, _ = io.Copy(io.Discard, br) })
	busy := r.dial()
	busy.send("GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n")
	r.eventually("the request", func() bool { return r.dials() == 1 })
	oldest := r.dial()
	oldest.send("G")
	newer := r.dial()
	newer.send("G")
	v := r.server.visitors
	r.eventually("three connections", func() bool { return v.gate.Of(visitor{peer: owner}) == 3 })
	v.mu.Lock()
	for c := range v.all[visitor{peer: owner}] {
		if at := c.silent.Load(); at > 0 { // as if they had been at it for half a minute
			c.silent.Store(at - int64(30*time.Second))
		}
	}
	v.mu.Unlock()
	fresh := r.dial()
	if !fresh.served() {
		t.Error("a new connection is not served")
	}
	oldest.ended()
	newer.send("ET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if resp, _ := newer.get("GET"); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
}

// A connection that has waited in vain is told so.
func TestConnectionsThatWaitInVainAreTold(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) {
		o.Limits = Limits{Connections: 1, QueueTimeout: 10 * time.Millisecond, HeadTimeout: time.Hour}
	})
	first := r.dial()
	if !first.served() {
		t.Fatal("not served")
	}
	late := r.dial()
	late.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	resp, _ := late.get("GET")
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || resp.Header.Get("Kimbap-Error") == "" {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
	late.ended()
}
