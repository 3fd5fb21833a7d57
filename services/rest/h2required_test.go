package rest_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"slices"
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
					f.head(h.StreamID, true, ":status 200")
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

// A body in memory leaves whole each time that it is sent, with its trailer, also when
// it has no length; or the request fails.
func TestABodyInMemoryLeavesWholeAgain(t *testing.T) {
	for name, code := range map[string]http2.ErrCode{"demand": http2.ErrCodeHTTP11Required, "refusal": http2.ErrCodeRefusedStream} {
		t.Run(name, func(t *testing.T) {
			var asked, whole, sums atomic.Int32
			r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
				first := asked.Add(1) == 1
				for ended := false; !ended; {
					frame, err := f.ReadFrame()
					if err != nil {
						return
					}
					switch frame := frame.(type) {
					case *http2.DataFrame:
						whole.Add(int32(len(frame.Data())))
						ended = frame.StreamEnded()
					case *http2.MetaHeadersFrame:
						if ended = frame.StreamEnded(); frame.Fields[0].Value == "12" {
							sums.Add(1)
						}
					}
				}
				if first {
					_ = f.WriteRSTStream(h.StreamID, code)
					return
				}
				f.head(h.StreamID, true, ":status 200")
			}))
			call := body(r.call("POST", "/items/1"), strings.NewReader("whole"), -1)
			call.Request.Raw.Trailer = func() http.Header { return http.Header{"X-Sum": {"12"}} }
			call.Request.Raw.Announced = []string{"X-Sum"}
			if _, err := call.Request.Raw.Buffer(1 << 10); err != nil {
				t.Fatal(err)
			}
			_, _, err := r.do(t, call)
			if callersOf1 { // their bodies are streamed, and not held for a second time
				if err == nil {
					t.Error("no error")
				}
			} else if err != nil {
				t.Error(err)
			}
			if whole.Load() != 5*asked.Load() || sums.Load() != asked.Load() {
				t.Errorf("over HTTP/2 %d times: %d bytes in all, %d trailers", asked.Load(), whole.Load(), sums.Load())
			}
			for _, q := range r.Requests() {
				if string(q.Body) != "whole" || q.Trailer.Get("X-Sum") != "12" {
					t.Errorf("over HTTP/1.1: %q, %v", q.Body, q.Trailer)
				}
			}
			if sent := int(asked.Load()) + len(r.Requests()); err == nil && sent != 2 {
				t.Errorf("it was sent %d times", sent)
			}
		})
	}
}

// A call of gRPC cannot go over HTTP/1.1: a demand ends it, and what others were told to
// do is nothing to it.
func TestGRPCGoesOverHTTP2AlsoWhereHTTP1IsRequired(t *testing.T) {
	var calls, others atomic.Int32
	r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
		if h.PseudoValue("path") == "/service/demanding" {
			calls.Add(1)
			_ = f.WriteRSTStream(h.StreamID, http2.ErrCodeHTTP11Required)
			return
		}
		for _, field := range h.Fields {
			if field.Name == "content-type" {
				f.head(h.StreamID, true, ":status 200")
				return
			}
		}
		others.Add(1)
		_ = f.WriteRSTStream(h.StreamID, http2.ErrCodeHTTP11Required)
	}))
	r.proto = "HTTP/2.0"
	if _, _, err := r.do(t, r.call("POST", "/service/demanding", "Content-Type: application/grpc")); err == nil {
		t.Error("a call of gRPC that HTTP/1.1 is demanded for succeeded")
	}
	equal(t, "times it was asked for", calls.Load(), 1)
	for range 2 {
		r.must(t, r.call("GET", "/items/1"))
		r.must(t, r.call("POST", "/service/plain", "Content-Type: application/grpc"))
	}
	equal(t, "others over HTTP/2", others.Load(), 1)
	equal(t, "others over HTTP/1.1", len(r.Requests()), 2)
}

// An upstream that demands HTTP/1.1 for one path and does not speak it is asked over
// HTTP/2 for the others.
func TestADemandOfAnUpstreamThatDoesNotSpeakHTTP1(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		o := framed(func(f *frames, h *http2.MetaHeadersFrame) {
			if h.PseudoValue("path") == "/demanding" {
				_ = f.WriteRSTStream(h.StreamID, http2.ErrCodeHTTP11Required)
				return
			}
			f.head(h.StreamID, true, ":status 200")
		})
		o.TLS = func(c *tls.Config) {
			plain := c.Clone()
			plain.NextProtos = []string{"none"} // crypto/tls takes a client without HTTP/2 where it has that alone
			c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				if slices.Contains(hello.SupportedProtos, "h2") {
					return nil, nil
				}
				return plain, nil
			}
		}
		r := newRig(t, o)
		r.proto = proto
		for range 2 {
			r.must(t, r.call("GET", "/free"))
			if _, _, err := r.do(t, r.call("GET", "/demanding")); err == nil {
				t.Errorf("%s: no error for what cannot be had", proto)
			}
		}
		r.must(t, r.call("GET", "/free"))
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
			read, demanded := make(chan struct{}), make(chan struct{})
			r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
				asked.Add(1)
				<-read // before that it may go again
				demand(f, h.StreamID)
				close(demanded)
			}))
			reader, writer := io.Pipe()
			go func() {
				_, _ = io.WriteString(writer, "x")
				close(read)
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
