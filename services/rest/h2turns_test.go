package rest_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// An upgrade is asked for over HTTP/1.1 although the upstream prefers HTTP/2.
func TestUpgradesGoOverH1(t *testing.T) {
	r := newRig(t, handled(0, func(w http.ResponseWriter, q *http.Request) { _, _ = io.WriteString(w, q.Proto) }))
	answer, _ := r.must(t, r.call("GET", "/"))
	equal(t, "protocol", answer.Body, "HTTP/2.0")
	ours, theirs := net.Pipe()
	go func() { _ = theirs.Close() }()
	out := &runtimetest.Responder{Conn: func() (net.Conn, error) { return ours, nil }}
	call := r.call("GET", "/ws", "Connection: Upgrade", "Upgrade: websocket", "Sec-Websocket-Key: x")
	if _, err := r.backend.Execute(t.Context(), call, out); err != nil {
		t.Fatal(err)
	}
	equal(t, "status", out.Answer().Status, 101)
	answer, _ = r.must(t, r.call("GET", "/", "Authorization: NTLM x"))
	equal(t, "NTLM with a stored credential", answer.Body, "HTTP/2.0")
	answer, _ = r.must(t, pass(r.call("GET", "/", "Authorization: NTLM x")))
	equal(t, "NTLM", answer.Body, "ok")
}

// A burst to an upstream of HTTP/1.1 is answered, and dials no more than it needs.
func TestBurstToH1(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			if _, _, err := r.do(t, r.call("GET", "/")); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for range 5 {
		r.must(t, r.call("GET", "/"))
	}
	if n := r.Connections(); n > 20 { // one for each of the burst, some of which may come late
		t.Errorf("%d connections for 20 requests at once and 5 after them", n)
	}
}

// An upstream may change its protocol, both ways.
func TestProtocolChanges(t *testing.T) {
	var h2 atomic.Bool
	var mu sync.Mutex
	var open []net.Conn
	options := handled(0, func(w http.ResponseWriter, q *http.Request) { _, _ = io.WriteString(w, q.Proto) })
	serve := options.H2
	options.H2 = func(c net.Conn) { mu.Lock(); open = append(open, c); mu.Unlock(); serve(c) }
	options.TLS = func(c *tls.Config) {
		if !h2.Load() {
			c.NextProtos = []string{"http/1.1"}
		}
	}
	options.Routes = map[string]servicestest.Behave{"/": func(c *servicestest.Conn, q *servicestest.Request) bool {
		c.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nh1")
		return false
	}}
	r := newRig(t, options)
	r.proto = "HTTP/2.0"
	for i, want := range []string{"h1", "h1", "HTTP/2.0", "HTTP/2.0", "h1", "h1", "HTTP/2.0"} {
		h2.Store(want != "h1")
		if i == 4 {
			mu.Lock()
			for _, c := range open {
				_ = c.Close()
			}
			mu.Unlock()
		}
		var answer runtimetest.Answer
		for range 3 { // a connection that was just closed may still be taken once
			var err error
			if answer, _, err = r.do(t, r.call("GET", "/")); err == nil {
				break
			}
		}
		equal(t, fmt.Sprint("request ", i), answer.Body, want)
	}
}

// What the upstream chooses is what it gets, also from a caller of HTTP/1.1, and
// one connection is enough to find out.
func TestTheUpstreamChooses(t *testing.T) {
	strict := func(c *tls.Config) { // answers other offers with an alert
		c.NextProtos = []string{"h2"}
		other := c.Clone()
		other.NextProtos = []string{"other"}
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if slices.Contains(hello.SupportedProtos, "h2") {
				return nil, nil
			}
			return other, nil
		}
	}
	for name, c := range map[string]struct {
		tls  func(*tls.Config)
		want string
	}{
		"both":                {nil, "HTTP/2.0"},
		"HTTP/1.1 alone":      {func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }, "ok"},
		"no ALPN":             {func(c *tls.Config) { c.NextProtos = nil }, "ok"},
		"HTTP/2 alone":        {func(c *tls.Config) { c.NextProtos = []string{"h2"} }, "HTTP/2.0"},
		"HTTP/2, said loudly": {strict, "HTTP/2.0"},
	} {
		t.Run(name, func(t *testing.T) {
			o := handled(0, func(w http.ResponseWriter, q *http.Request) { _, _ = io.WriteString(w, q.Proto) })
			o.TLS = c.tls
			r := newRig(t, o)
			r.proto = "HTTP/1.1"
			for range 3 {
				answer, _ := r.must(t, r.call("GET", "/"))
				equal(t, "answer", answer.Body, c.want)
			}
			equal(t, "connections", r.Connections(), 1)
		})
	}
}

// turns are what callers of HTTP/1.1 get of an upstream with both protocols when it is
// not their turn: what the double says over HTTP/1.1, on a connection of their own. Under
// net/http they share the one of HTTP/2.
func turns() (beside string, connections int) {
	if engine == rest.EngineRelay {
		return "ok", 2
	}
	return "HTTP/2.0", 1
}

// Callers of HTTP/1.1 take turns on a connection of HTTP/2: who would have to
// share it gets one of HTTP/1.1, and it is free again after each of them.
func TestCallersOfHTTP1TakeTurnsOnHTTP2(t *testing.T) {
	beside, connections := turns()
	held, free := make(chan struct{}), make(chan struct{})
	r := newRig(t, handled(0, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/held" {
			close(held)
			<-free
		}
		_, _ = io.WriteString(w, q.Proto)
	}))
	r.proto = "HTTP/1.1"
	first := make(chan runtimetest.Answer, 1)
	go func() { answer, _, _ := r.do(t, r.call("GET", "/held")); first <- answer }()
	<-held
	for range 2 {
		answer, _ := r.must(t, r.call("GET", "/"))
		equal(t, "beside another", answer.Body, beside)
	}
	close(free)
	equal(t, "the first", (<-first).Body, "HTTP/2.0")
	answer, _ := r.must(t, r.call("GET", "/"))
	equal(t, "after it", answer.Body, "HTTP/2.0")
	equal(t, "connections", r.Connections(), connections)
}

// A busy caller of HTTP/1.1 gets what it would have without us.
func TestABusyCallerIsCarriedByHTTP1(t *testing.T) {
	beside, connections := turns()
	r := newRig(t, handled(0, func(w http.ResponseWriter, q *http.Request) { _, _ = io.WriteString(w, q.Proto) }))
	r.proto = "HTTP/1.1"
	for _, c := range []struct {
		before int
		want   string
	}{{0, "HTTP/2.0"}, {127, "HTTP/2.0"}, {128, beside}, {129, beside}, {0, "HTTP/2.0"}} {
		call := r.call("GET", "/")
		call.Request.Raw.Before = c.before
		answer, _ := r.must(t, call)
		equal(t, "the protocol", answer.Body, c.want)
	}
	equal(t, "connections", r.Connections(), connections)
}

// Nor does it matter on how many connections a busy caller sends its requests.
func TestABusyUpstreamIsCarriedByHTTP1(t *testing.T) {
	beside, connections := turns()
	r := newRig(t, handled(0, func(w http.ResponseWriter, q *http.Request) { _, _ = io.WriteString(w, q.Proto) }))
	r.proto = "HTTP/1.1"
	for n := range 140 {
		want := "HTTP/2.0"
		if n > 128 { // the first one had not taken a turn but dialled
			want = beside
		}
		answer, _ := r.must(t, r.call("GET", "/"))
		equal(t, fmt.Sprintf("the protocol of request %d", n), answer.Body, want)
	}
	r.proto = "HTTP/2.0"
	answer, _ := r.must(t, r.call("GET", "/"))
	equal(t, "a caller of HTTP/2", answer.Body, "HTTP/2.0")
	if engine == rest.EngineRelay {
		connections++ // callers of HTTP/2 have their own
	}
	equal(t, "connections", r.Connections(), connections)
}

// So is a script that makes many calls, and what follows on the connection that is
// there then: an action's request is ours to send as it costs least.
func TestAScriptOfManyCallsIsCarriedByHTTP1(t *testing.T) {
	r := newRig(t, handled(0, func(w http.ResponseWriter, q *http.Request) { _, _ = io.WriteString(w, q.Proto) }))
	beside, connections := turns()
	for _, c := range []struct {
		step int
		want string
	}{{1, "HTTP/2.0"}, {128, "HTTP/2.0"}, {129, beside}, {130, beside}, {1, beside}, {0, beside}} {
		call := r.call("GET", "/")
		call.Request.Raw, call.Request.Step = nil, c.step
		answer, _ := r.must(t, call)
		equal(t, fmt.Sprintf("the protocol of call %d", c.step), answer.Body, c.want)
	}
	equal(t, "connections", r.Connections(), connections)
}

// Where much was fetched, callers of HTTP/1.1 have connections of their
// own from then on; those of HTTP/2 go on as before.
func TestBulkIsCarriedByHTTP1(t *testing.T) {
	beside, _ := turns()
	r := newRig(t, handled(0, func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.WriteString(w, q.Proto)
		if q.URL.Path == "/much" {
			_, _ = w.Write(make([]byte, 65<<20))
		}
	}))
	for _, c := range []struct{ caller, path, want string }{
		{"HTTP/1.1", "/", "HTTP/2.0"}, {"HTTP/2.0", "/much", "HTTP/2.0"}, {"HTTP/1.1", "/", "HTTP/2.0"},
		{"HTTP/1.1", "/much", "HTTP/2.0"}, {"HTTP/1.1", "/", beside}, {"HTTP/1.1", "/much", beside}, {"HTTP/2.0", "/", "HTTP/2.0"},
	} {
		r.proto = c.caller
		answer, _ := r.must(t, r.call("GET", c.path))
		equal(t, c.caller+" "+c.path, string(answer.Body[:len(c.want)]), c.want)
	}
}
