package proxy

import (
	"context"
	"crypto/tls"
	"net/http"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// A CONNECT that is refused is an ordinary answer: the next one may come on the same
// connection.
func TestARefusedConnectKeepsTheConnection(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.RequireToken = true })
	r.upstream("api.good.test:443", answering(okAnswer))
	c := r.dial()
	for range 2 {
		c.send("CONNECT api.good.test:443 HTTP/1.1\r\nHost: api.good.test:443\r\n\r\n")
		c.refused(407, runtime.CodeUnauthenticated)
	}
	c.send("CONNECT api.good.test:443 HTTP/1.1\r\nHost: api.good.test:443\r\nProxy-Authorization: " + basic("kimbap", goodToken) + "\r\n\r\n")
	if resp := c.answer("CONNECT"); resp.StatusCode != http.StatusOK || len(resp.Header) > 0 {
		t.Fatalf("%s %v", resp.Status, resp.Header)
	}
	inside := c.tls(&tls.Config{RootCAs: r.roots, ServerName: "api.good.test"})
	for range 3 { // the first is served where the handshake was, the others are not
		inside.send("GET /open HTTP/1.1\r\nHost: api.good.test\r\n\r\n")
		if resp, body := inside.get("GET"); resp.StatusCode != 200 || body != "ok" {
			t.Fatalf("%s %q", resp.Status, body)
		}
	}
}

// What a client sends for a tunnel that it does not get is no request. net/http looks
// only at what comes while the CONNECT is being refused.
func TestBytesForARefusedTunnelEndTheConnection(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.Engine, o.RequireToken = EngineRelay, true })
	c := r.dial()
	c.send("CONNECT api.good.test:443 HTTP/1.1\r\nHost: api.good.test:443\r\n\r\n" +
		"GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n")
	c.refused(407, runtime.CodeUnauthenticated)
	c.ended()
}

// A client that goes while its CONNECT waits ends the waiting.
func TestAClientThatGoesEndsItsConnect(t *testing.T) {
	waiting, over := make(chan struct{}), make(chan error, 1)
	r := newRig(t, func(o *Options, _ *stages) { o.Identity = &patientIdentity{o.Identity, waiting, over} })
	c := r.dial()
	c.send("CONNECT api.good.test:443 HTTP/1.1\r\nHost: api.good.test:443\r\n\r\n")
	<-waiting
	_ = c.Close()
	select {
	case err := <-over:
		if err == nil {
			t.Error("it was not cancelled")
		}
	case <-time.After(patience):
		t.Error("it goes on")
	}
}

// patientIdentity identifies nobody before the request is cancelled.
type patientIdentity struct {
	runtime.Identifier
	waiting chan struct{}
	over    chan error
}

func (p *patientIdentity) Identify(ctx context.Context, caller runtime.Caller) (runtime.Principal, error) {
	close(p.waiting)
	<-ctx.Done()
	p.over <- ctx.Err()
	return runtime.Principal{}, ctx.Err()
}

// A crew's goroutine takes the next work, and none stays once it is over.
func TestCrew(t *testing.T) {
	over := make(chan struct{})
	c := newCrew(over)
	done := make(chan struct{})
	work := func() { done <- struct{}{} }
	c.do(work)
	<-done
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		select {
		case c.work <- work: // somebody waits for it
		default:
			if time.Since(begun) > patience {
				t.Fatal("nobody stayed")
			}
			continue
		}
		break
	}
	<-done
	close(over)
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(5 * time.Millisecond) {
		select {
		case c.work <- func() {}:
		default:
			return
		}
	}
	t.Error("somebody stays after the end")
}
