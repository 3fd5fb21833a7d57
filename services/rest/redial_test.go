package rest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// shut is a dialer that opens nothing once it is closed.
type shut struct {
	dialer
	closed atomic.Bool
	dials  atomic.Int32
}

func (d *shut) Dial(ctx context.Context, authority string, trusted, loopback bool) (net.Conn, string, bool, error) {
	if d.closed.Load() {
		return nil, "", false, errors.New("nothing leads there")
	}
	d.dials.Add(1)
	return d.dialer.Dial(ctx, authority, trusted, loopback)
}

// After a Redial no request goes over a connection that was opened before: not over one
// that lay unused, and not over one that was in use then. What is under way ends well.
func TestNoConnectionOutlivesARedial(t *testing.T) {
	for name, o := range map[string]func(gate *gates) servicestest.Options{
		"HTTP/1.1": func(g *gates) servicestest.Options {
			return servicestest.Options{Routes: map[string]servicestest.Behave{"/wait": func(c *servicestest.Conn, _ *servicestest.Request) bool {
				g.pass()
				return c.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}}}
		},
		"cleartext": func(g *gates) servicestest.Options {
			return servicestest.Options{Cleartext: true, Routes: map[string]servicestest.Behave{"/wait": func(c *servicestest.Conn, _ *servicestest.Request) bool {
				g.pass()
				return c.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}}}
		},
		"HTTP/2": func(g *gates) servicestest.Options {
			return handled(100, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/wait" {
					g.pass()
				}
				_, _ = io.WriteString(w, "ok")
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := &gates{came: make(chan struct{}), open: make(chan struct{})}
			d := &shut{}
			r := newRig(t, o(g), func(o *rest.Options) { o.Dialer = d })
			r.must(t, pass(r.call("GET", "/a")))
			first := d.dials.Load()
			d.closed.Store(true)
			r.must(t, pass(r.call("GET", "/a"))) // it is kept: without this the test says nothing
			done := make(chan error, 1)
			go func() {
				_, err := r.backend.Execute(context.Background(), pass(r.call("GET", "/wait")), &runtimetest.Responder{})
				done <- err
			}()
			<-g.came
			if err := r.backend.Redial(rest.Times{IdleTimeout: time.Minute}, false); err != nil {
				t.Fatal(err)
			}
			if _, _, err := r.do(t, pass(r.call("GET", "/a"))); err == nil {
				t.Error("a connection of before is used for another request")
			}
			close(g.open)
			if err := <-done; err != nil {
				t.Errorf("what was under way: %v", err)
			}
			if _, _, err := r.do(t, pass(r.call("GET", "/a"))); err == nil {
				t.Error("what was in use then is used for another request")
			}
			d.closed.Store(false)
			r.must(t, pass(r.call("GET", "/a")))
			if d.dials.Load() == first {
				t.Error("nothing was dialled anew")
			}
		})
	}
}

// gates hold one request.
type gates struct{ came, open chan struct{} }

func (g *gates) pass() { close(g.came); <-g.open }

// The next request waits as long as the last Redial says.
func TestARedialBringsItsTimes(t *testing.T) {
	g := &gates{came: make(chan struct{}), open: make(chan struct{})}
	r := newRig(t, handled(10, func(http.ResponseWriter, *http.Request) { g.pass() }), func(o *rest.Options) { o.HeaderTimeout = time.Hour })
	defer close(g.open)
	if err := r.backend.Redial(rest.Times{HeaderTimeout: -1}, false); err == nil {
		t.Error("a negative time was taken")
	}
	if err := r.backend.Redial(rest.Times{HeaderTimeout: 50 * time.Millisecond}, false); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.do(t, pass(r.call("GET", "/a"))); err == nil {
		t.Error("it was answered")
	}
}

// An answer is searched as strictly as the last Redial says, and one that is under way as
// it was when its request came.
func TestARedialBringsTheSearch(t *testing.T) {
	g := &gates{came: make(chan struct{}), open: make(chan struct{})}
	unknown := coded("unknown", "packed", false)
	r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{
		"/coded": unknown,
		"/wait":  func(c *servicestest.Conn, q *servicestest.Request) bool { g.pass(); return unknown(c, q) },
	}})
	done := make(chan error, 1)
	go func() {
		_, err := r.backend.Execute(context.Background(), r.call("GET", "/wait"), &runtimetest.Responder{})
		done <- err
	}()
	<-g.came
	if err := r.backend.Redial(rest.Times{}, true); err != nil {
		t.Fatal(err)
	}
	r.refused(t, r.call("GET", "/coded"), runtime.CodeUpstream, runtime.ReasonScrubImpossible)
	close(g.open)
	if err := <-done; err != nil {
		t.Errorf("what was under way: %v", err)
	}
	if err := r.backend.Redial(rest.Times{}, false); err != nil {
		t.Fatal(err)
	}
	answer, result := r.must(t, r.call("GET", "/coded"))
	equal(t, "answer", answer.Body, "packed")
	equal(t, "unscanned", result.Unscanned, true)
}

// What was upgraded can be ended from outside, and says when it has ended by itself.
func TestAnUpgradeIsHeld(t *testing.T) {
	ends, released := make(chan func(), 1), make(chan struct{})
	r := newRig(t, servicestest.Options{}, func(o *rest.Options) {
		o.Hold = func(authority, address string, trusted, loopback bool, end func()) func() {
			if authority != address || !trusted || !loopback {
				t.Errorf("held: %s at %s, trusted %v, loopback %v", authority, address, trusted, loopback)
			}
			ends <- end
			return func() { close(released) }
		}
	})
	near, far := pipe(t)
	out := &runtimetest.Responder{Conn: func() (net.Conn, error) { return far, nil }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = r.backend.Execute(context.Background(), r.call("GET", "/ws", "Connection: Upgrade", "Upgrade: websocket", "Sec-Websocket-Key: a2V5"), out)
	}()
	_, _ = io.WriteString(near, "ping")
	if _, err := io.ReadFull(near, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	(<-ends)()
	_ = near.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := near.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("it goes on")
	}
	<-done
	<-released
}
