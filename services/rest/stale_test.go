package rest_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// hangsUp reads a request and ends the connection without an answer.
func hangsUp(c *servicestest.Conn, q *servicestest.Request) bool {
	_ = c.ReadBody(q)
	return false
}

// A kept connection that ends after the request was written says nothing of what
// the upstream did with it. It is asked once more only for what reads: by its method
// where no service owns the host, by the word of the action where one does.
func TestWhatMayHaveHadItsEffectIsNotRepeated(t *testing.T) {
	described := func(idempotent bool, risk runtime.Risk) func(*runtime.Call) {
		return func(c *runtime.Call) { c.Action.Idempotent, c.Action.Risk = idempotent, risk }
	}
	unowned := func(c *runtime.Call) { pass(c).Action.Risk = runtime.RiskUnmatched }
	whole := func(c *runtime.Call) {
		body(c, strings.NewReader("once"), 4)
		if _, err := c.Request.Raw.Buffer(10); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, method string
		edit         []func(*runtime.Call)
		fields       []string
		times        int
	}{
		{"GET that reads", "GET", []func(*runtime.Call){described(true, runtime.RiskLow)}, nil, 2},
		{"HEAD that reads", "HEAD", []func(*runtime.Call){described(true, runtime.RiskLow)}, nil, 2},
		{"GET without a service", "GET", []func(*runtime.Call){unowned}, nil, 2},
		{"OPTIONS without a service", "OPTIONS", []func(*runtime.Call){unowned}, nil, 2},
		{"GET that is not idempotent", "GET", []func(*runtime.Call){described(false, runtime.RiskLow)}, nil, 1},
		{"GET that does something", "GET", []func(*runtime.Call){described(true, runtime.RiskMedium)}, nil, 1},
		{"GET of high risk, with a key", "GET", []func(*runtime.Call){described(true, runtime.RiskHigh)}, []string{"Idempotency-Key: 1"}, 1},
		{"GET that says it has no bytes", "GET", []func(*runtime.Call){described(false, runtime.RiskLow)}, []string{"Content-Length: 0"}, 1},
		{"GET with a body", "GET", []func(*runtime.Call){unowned, whole}, nil, 1},
		{"PUT that is idempotent", "PUT", []func(*runtime.Call){described(true, runtime.RiskLow), whole}, nil, 1},
		{"DELETE without a service", "DELETE", []func(*runtime.Call){unowned}, nil, 1},
		{"DELETE with a key", "DELETE", []func(*runtime.Call){unowned}, []string{"Idempotency-Key: 1"}, 1},
		{"POST with a key", "POST", []func(*runtime.Call){described(true, runtime.RiskLow)}, []string{"Idempotency-Key: 1"}, 1},
		{"POST of no bytes with a key", "POST", []func(*runtime.Call){unowned}, []string{"Idempotency-Key: 1", "Content-Length: 0"}, 1},
		{"POST with a body and a key", "POST", []func(*runtime.Call){unowned, whole}, []string{"X-Idempotency-Key: 1"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, routes("/hang-up", hangsUp))
			r.must(t, r.call("GET", "/"))
			r.must(t, pass(r.call("GET", "/"))) // connections of the two are kept apart
			call := r.call(c.method, "/hang-up", c.fields...)
			for _, edit := range c.edit {
				edit(call)
			}
			r.refused(t, call, runtime.CodeUpstream, runtime.ReasonUpstreamUnavailable)
			asked := slices.DeleteFunc(r.Requests(), func(q servicestest.Request) bool { return q.Target != "/hang-up" })
			equal(t, "requests", len(asked), c.times)
			for _, q := range asked {
				want := 0
				if slices.Contains(c.fields, "Content-Length: 0") || call.Request.Raw.ContentLength > 0 || engine == rest.EngineStd && c.method == "POST" {
					want = 1
				}
				equal(t, "lengths", len(q.Header["Content-Length"]), want)
				equal(t, "codings", len(q.Header["Transfer-Encoding"]), 0)
			}
		})
	}
}

// However many connections are kept, it is asked once more and not on each of them.
func TestWhatReadsIsRepeatedOnce(t *testing.T) {
	const kept = 4
	var waiting sync.WaitGroup
	waiting.Add(kept)
	r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{
		"/hang-up": hangsUp,
		"/wait": func(c *servicestest.Conn, q *servicestest.Request) bool {
			waiting.Done()
			waiting.Wait() // so that each has a connection of its own
			return answered(c, q)
		},
	}})
	var calls sync.WaitGroup
	for range kept {
		calls.Go(func() {
			if _, _, err := r.do(t, r.call("GET", "/wait")); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	r.refused(t, r.call("GET", "/hang-up"), runtime.CodeUpstream, runtime.ReasonUpstreamUnavailable)
	equal(t, "requests", len(r.Requests()), kept+2)
	equal(t, "connections", r.Connections(), kept+1)
}

// failingWrites dials connections that, when told, fail the first write of each without
// a byte of it leaving, as the kernel does once a reset has come.
type failingWrites struct{ now atomic.Bool }

func (d *failingWrites) Dial(ctx context.Context, authority string, _, _ bool) (net.Conn, string, bool, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", authority)
	return &failsToWrite{conn, d}, authority, true, err
}

type failsToWrite struct {
	net.Conn
	of *failingWrites
}

func (c *failsToWrite) Write(p []byte) (int, error) {
	if c.of.now.CompareAndSwap(true, false) {
		return 0, syscall.EPIPE
	}
	return c.Conn.Write(p)
}

// When not a byte has left, anything is sent on another connection whose body can be.
func TestWhatHasNotLeftIsSentAgain(t *testing.T) {
	for _, scheme := range []bool{true, false} {
		dialer := &failingWrites{}
		r := newRig(t, servicestest.Options{Cleartext: scheme, Routes: map[string]servicestest.Behave{"/do": answered}},
			func(o *rest.Options) { o.Dialer = dialer })
		for _, c := range []struct {
			method, body string
			streamed     bool
		}{{method: "GET"}, {method: "DELETE"}, {method: "POST"}, {"POST", "once", false}, {"POST", "once", true}, {"PUT", strings.Repeat("x", 100_000), false}} {
			call := pass(r.call(c.method, "/do"))
			if c.body != "" {
				body(call, strings.NewReader(c.body), int64(len(c.body)))
				if !c.streamed {
					if _, err := call.Request.Raw.Buffer(1 << 20); err != nil {
						t.Fatal(err)
					}
				}
			}
			r.must(t, pass(r.call("GET", "/"))) // so that one is kept
			before := len(r.Requests())
			dialer.now.Store(true)
			_, result := r.must(t, call)
			equal(t, c.method+": requests", len(r.Requests())-before, 1)
			equal(t, c.method+": body", len(r.Last(t).Body), len(c.body))
			equal(t, c.method+": bytes", result.BytesOut, int64(len(c.body)))
			equal(t, c.method+": tried", dialer.now.Load(), false)
		}
	}
}

// A connection is left alone in the last moment that the upstream keeps it for, so
// that no request meets its end on the way.
func TestKeepAliveIsHeeded(t *testing.T) {
	var passed atomic.Int64
	start := time.Now()
	r := unwatched(t, routes("/lease", func(c *servicestest.Conn, _ *servicestest.Request) bool {
		return c.Send("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\nContent-Length: 0\r\n\r\n")
	}), func(o *rest.Options) {
		o.Clock = func() time.Time { return start.Add(time.Duration(passed.Load())) }
	})
	for _, c := range []struct {
		after time.Duration
		conns int
	}{{0, 1}, {3 * time.Second, 1}, {3 * time.Second, 1}, {4500 * time.Millisecond, 2}, {3 * time.Second, 2}, {time.Hour, 3}} {
		passed.Add(int64(c.after))
		r.must(t, r.call("GET", "/lease"))
		equal(t, "connections", r.Connections(), c.conns)
	}
}

func answered(c *servicestest.Conn, q *servicestest.Request) bool {
	return c.ReadBody(q) == nil && c.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
}
