package rest_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// demands are how an upstream asks for HTTP/1.1 on a stream.
var demands = map[string]func(f *frames, stream uint32){
	"reset":  func(f *frames, stream uint32) { _ = f.WriteRSTStream(stream, http2.ErrCodeHTTP11Required) },
	"GOAWAY": func(f *frames, stream uint32) { _ = f.WriteGoAway(stream-1, http2.ErrCodeHTTP11Required, nil) },
}

// An upstream that demands HTTP/1.1 for a request gets it so, and is not asked over
// HTTP/2 again (RFC 9113 section 7).
func TestHTTP1IsUsedWhereItIsRequired(t *testing.T) {
	for name, demand := range demands {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
				if h.PseudoValue("path") == "/items/free" {
					f.head(h.StreamID, true, "status 200")
					return
				}
				asked.Add(1)
				demand(f, h.StreamID)
			}))
			r.must(t, r.call("GET", "/items/free"))
			first := int32(0)
			for n, call := range []string{"GET", "DELETE", "GET"} {
				answer, _ := r.must(t, r.call(call, "/items/1"))
				equal(t, "status", answer.Status, http.StatusOK)
				if first == 0 {
					first = asked.Load()
				}
				if asked.Load() != first || first > 2 { // golang.org/x/net tells the code of a GOAWAY on its first stream alone
					t.Errorf("%d requests: it was asked over HTTP/2 %d times, %d for the first", n+1, asked.Load(), first)
				}
				last := r.Last(t)
				equal(t, "credential", last.Header.Get("Authorization"), "Bearer "+canary)
				equal(t, "requests over HTTP/1.1", len(r.Requests()), n+1)
			}
			r.must(t, body(r.call("POST", "/items/1"), strings.NewReader("whole"), 5))
			equal(t, "body", string(r.Last(t).Body), "whole")
			equal(t, "times it was asked over HTTP/2", asked.Load(), first)
		})
	}
}

// What an origin demanded of callers of HTTP/2 is known as long as it is asked now and
// then, also when it closes its connections, and forgotten in ten minutes of silence.
func TestADemandForHTTP1IsForgotten(t *testing.T) {
	var asked atomic.Int32
	clock := runtimetest.NewClock()
	o := framed(func(f *frames, h *http2.MetaHeadersFrame) {
		asked.Add(1)
		_ = f.WriteRSTStream(h.StreamID, http2.ErrCodeHTTP11Required)
	})
	o.Routes = map[string]servicestest.Behave{"/once": func(c *servicestest.Conn, _ *servicestest.Request) bool {
		c.Send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		return false
	}}
	r := newRig(t, o, func(o *rest.Options) { o.Clock = clock.Now })
	for _, step := range []struct {
		silence time.Duration
		asked   int32 // times over HTTP/2 by then
	}{{0, 1}, {9 * time.Minute, 1}, {9 * time.Minute, 1}, {11 * time.Minute, 2}, {time.Minute, 2}} {
		clock.Advance(step.silence)
		r.must(t, r.call("GET", "/once"))
		if asked.Load() != step.asked {
			t.Errorf("after %s of silence it was asked over HTTP/2 %d times in all, want %d", step.silence, asked.Load(), step.asked)
		}
	}
}

// A body that has left is not there for a second time: that request fails, and the next
// one goes over HTTP/1.1.
func TestADemandAfterTheBodyHasLeft(t *testing.T) {
	for name, demand := range demands {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			demanded := make(chan struct{})
			r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
				asked.Add(1)
				_, _ = f.ReadFrame() // some of the body
				demand(f, h.StreamID)
				close(demanded)
			}))
			reader, writer := io.Pipe()
			go func() {
				_, _ = io.WriteString(writer, "x")
				<-demanded
				_ = writer.Close()
			}()
			if _, _, err := r.do(t, body(r.call("POST", "/stream"), reader, -1)); err == nil {
				t.Error("a body that was read from was sent again")
			}
			_ = reader.Close()
			r.must(t, r.call("GET", "/items/1"))
			equal(t, "times it was asked over HTTP/2", asked.Load(), 1)
		})
	}
}
