//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has accepted itself

package rest_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http2/http2test"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// handled serves HTTP/2 with a handler.
func handled(streams uint32, h http.HandlerFunc) servicestest.Options {
	return servicestest.Options{H2: func(c net.Conn) {
		(&http2.Server{MaxConcurrentStreams: streams}).ServeConn(c, &http2.ServeConnOpts{Handler: h})
	}}
}

// frames is an upstream that writes frames by hand.
type frames struct {
	*http2test.Frames
}

// framed serves HTTP/2 with a function that is given each request's head.
func framed(on func(f *frames, h *http2.MetaHeadersFrame)) servicestest.Options {
	return servicestest.Options{H2: func(c net.Conn) {
		f := begin(c)
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.MetaHeadersFrame:
				on(f, frame)
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					_ = f.WriteSettingsAck()
				}
			case *http2.PingFrame:
				if !frame.IsAck() {
					_ = f.WritePing(true, frame.Data)
				}
			}
		}
	}}
}

// begin greets a client. Of one that is gone, whoever reads finds out.
func begin(c net.Conn, settings ...http2.Setting) *frames {
	f, _ := http2test.Server(c, settings...)
	return &frames{f}
}

// head writes fields: ":status 200", "x-a b".
func (f *frames) head(stream uint32, end bool, fields ...string) {
	_ = f.Send(stream, end, f.Block(fields...))
}

// What leaves on HTTP/2 is the caller's head and the credential, nothing else.
func TestNothingIsAddedOnH2(t *testing.T) {
	got := make(chan []string, 1)
	r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
		var fields []string
		for _, field := range h.Fields {
			fields = append(fields, field.Name+": "+field.Value)
		}
		slices.Sort(fields)
		got <- fields
		f.head(h.StreamID, true, ":status 204")
	}))
	for _, target := range []string{"/", "/a%2fb/%7E~?q=%20&&x", "/a?", "//host/path?x", "/caf\xc3\xa9", "*"} {
		method := "GET"
		if target == "*" {
			method = "OPTIONS"
		}
		call := r.call(method, target, "Accept: a", "X-Multi: 1", "X-Multi: 2", "Te: trailers, gzip", "Connection: X-Hop", "X-Hop: 1", "Keep-Alive: 5", "Cookie: a=b; c=d")
		r.must(t, call)
		want := []string{
			":authority: " + r.Authority, ":method: " + method, ":path: " + target, ":scheme: https",
			"accept: a", "authorization: Bearer " + canary, "cookie: a=b", "cookie: c=d", "te: trailers", "x-multi: 1", "x-multi: 2",
		}
		if callersOf1 && engine == rest.EngineRelay { // as it was written
			want = slices.Replace(want, 6, 8, "cookie: a=b; c=d")
		}
		if fields := <-got; !slices.Equal(fields, want) {
			t.Errorf("%s: the upstream got\n%q, want\n%q", target, fields, want)
		}
	}
	equal(t, "connections", r.Connections(), 1)
}

// early keeps the 1xx answers and their fields.
type early struct {
	*runtimetest.Responder
	hints []string
}

func (e *early) Informational(status int, h http.Header) error {
	e.hints = append(e.hints, fmt.Sprint(status, " ", h.Get("Link")))
	return e.Responder.Informational(status, h)
}

func TestAnswersOnH2(t *testing.T) {
	r := newRig(t, handled(0, func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/hints":
			for i := range 3 {
				w.Header().Set("Link", fmt.Sprint(i))
				w.WriteHeader(103)
			}
			w.Header().Del("Link")
			_, _ = io.WriteString(w, "ok")
		case "/trailers":
			w.Header().Set("Trailer", "X-Sum")
			_, _ = io.WriteString(w, "body")
			w.Header().Set("X-Sum", "42")
			w.Header().Set(http.TrailerPrefix+"X-Late", "yes")
		case "/echo":
			body, _ := io.ReadAll(q.Body)
			_, _ = fmt.Fprint(w, string(body), q.ContentLength, q.Trailer.Get("X-Sum"))
		case "/204":
			w.WriteHeader(204)
		case "/304":
			w.Header().Set("ETag", `"v1"`)
			w.WriteHeader(304)
		case "/head":
			w.Header().Set("Content-Length", "1234")
		}
	}))
	out := &early{Responder: &runtimetest.Responder{}}
	if _, err := r.backend.Execute(t.Context(), r.call("GET", "/hints"), out); err != nil {
		t.Fatal(err)
	}
	equal(t, "hints", strings.Join(out.hints, ","), "103 0,103 1,103 2")
	equal(t, "body after hints", out.Answer().Body, "ok")

	answer, _ := r.must(t, r.call("GET", "/trailers"))
	equal(t, "trailers", fmt.Sprint(answer.Body, answer.Header["Trailer"], answer.Trailer), "body[X-Sum] map[X-Late:[yes] X-Sum:[42]]")

	sized := body(r.call("POST", "/echo"), strings.NewReader("hello"), 5)
	answer, result := r.must(t, sized)
	equal(t, "body of known length", answer.Body, "hello5")
	equal(t, "bytes out", result.BytesOut, 5)
	unsized := body(r.call("POST", "/echo"), strings.NewReader("hello"), -1)
	unsized.Request.Raw.Announced = []string{"X-Sum"}
	unsized.Request.Raw.Trailer = func() http.Header { return http.Header{"X-Sum": {"7"}} }
	answer, _ = r.must(t, unsized)
	equal(t, "streamed body and trailer", answer.Body, "hello-17")

	answer, _ = r.must(t, r.call("GET", "/204"))
	equal(t, "204", fmt.Sprint(answer.Status, answer.Body), "204")
	answer, _ = r.must(t, r.call("GET", "/304"))
	equal(t, "304", fmt.Sprint(answer.Status, answer.Header.Get("ETag")), `304"v1"`)
	answer, _ = r.must(t, r.call("HEAD", "/head"))
	equal(t, "HEAD", fmt.Sprint(answer.Header.Get("Content-Length"), answer.Body), "1234")
	equal(t, "connections", r.Connections(), 1)
}

// bare notes whether it was told that nothing follows the head.
type bare struct {
	*runtimetest.Responder
	told bool
}

func (b *bare) NoBody() { b.told = true }

// A head that ends its stream is told from one that is followed by nothing.
func TestHeadThatEndsTheStream(t *testing.T) {
	r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
		last := h.PseudoValue("path") == "/last"
		f.head(h.StreamID, last, ":status 200")
		if !last {
			_ = f.WriteData(h.StreamID, true, nil)
		}
	}))
	r.proto = "HTTP/2.0"
	for path, want := range map[string]bool{"/last": true, "/empty": false} {
		out := &bare{Responder: &runtimetest.Responder{}}
		if _, err := r.backend.Execute(t.Context(), r.call("POST", path), out); err != nil {
			t.Fatal(err)
		}
		equal(t, path, out.told, want)
	}
}

// A 304 may say how long the body is that it does not have. A 204 may not, and some do: it
// has none all the same (RFC 9110 section 8.6).
func TestNoContentWithALengthOnH2(t *testing.T) {
	r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
		status, how, _ := strings.Cut(h.PseudoValue("path")[1:], "-")
		f.head(h.StreamID, how == "last", ":status "+status, "content-length 1234", `etag "v1"`)
		if how != "last" {
			_ = f.WriteData(h.StreamID, true, nil)
		}
	}))
	for _, how := range []string{"last", "empty"} {
		for status, length := range map[string]string{"304": "[1234]", "204": "[]"} {
			answer, _ := r.must(t, r.call("GET", "/"+status+"-"+how))
			equal(t, status+how, fmt.Sprint(answer.Status, answer.Header["Content-Length"], answer.Body), status+" "+length)
		}
	}
}

// Fields of HTTP/1.1 that an answer may not have there are taken out, and say nothing of how
// it ends.
func TestFramingOfHTTP1InAnswersOnH2(t *testing.T) {
	r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
		f.head(h.StreamID, false, ":status 200", "transfer-encoding chunked", "content-length 2")
		_ = f.WriteData(h.StreamID, true, []byte("ok"))
	}))
	answer, _ := r.must(t, r.call("GET", "/"))
	equal(t, "the answer", fmt.Sprint(answer.Status, answer.Header, answer.Body), "200 map[Content-Length:[2]]ok")
}

func TestBrokenAnswersOnH2(t *testing.T) {
	r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
		switch h.PseudoValue("path") {
		case "/reset":
			f.head(h.StreamID, false, ":status 200")
			_ = f.WriteData(h.StreamID, false, []byte("part"))
			_ = f.WriteRSTStream(h.StreamID, http2.ErrCodeInternal)
		case "/short":
			f.head(h.StreamID, false, ":status 200", "content-length 100")
			_ = f.WriteData(h.StreamID, true, []byte("part"))
		case "/cut":
			f.head(h.StreamID, false, ":status 200")
			_ = f.WriteData(h.StreamID, false, []byte("part"))
			_ = f.Conn.Close()
		case "/refused":
			_ = f.WriteRSTStream(h.StreamID, http2.ErrCodeInternal)
		case "/large":
			for range 20 {
				f.head(h.StreamID, true, ":status 200", "x-big "+strings.Repeat("x", 15<<10))
			}
		case "/hints":
			for range 100 {
				f.head(h.StreamID, false, ":status 103")
			}
		case "/invalid":
			f.head(h.StreamID, true, ":status no")
		case "/signed":
			f.head(h.StreamID, true, ":status +200")
		case "/padded":
			f.head(h.StreamID, true, ":status 0200")
		}
	}))
	for _, path := range []string{"/reset", "/short", "/cut"} {
		answer, result, err := r.do(t, body(r.call("POST", path), strings.NewReader("x"), 1))
		e := runtime.AsError(err)
		if e == nil || e.Code != runtime.CodeUpstream || e.Reason != runtime.ReasonTruncated || answer.Aborted == nil || answer.Body != "part" {
			t.Errorf("%s: %v, aborted %v", path, err, answer.Aborted)
		}
		equal(t, "status", result.Status, 200)
	}
	for path, msg := range map[string]string{
		"/refused": "closed the connection without an answer", "/hints": "not valid HTTP", "/invalid": "not valid HTTP",
		"/signed": "not valid HTTP", "/padded": "not valid HTTP",
	} {
		if _, _, err := r.do(t, r.call("GET", path)); err == nil || !strings.Contains(err.Error(), msg) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// An answer that never ends is taken only as fast as the caller takes it.
func TestFlowControlEndToEnd(t *testing.T) {
	var sent atomic.Int64
	r := newRig(t, handled(0, func(w http.ResponseWriter, q *http.Request) {
		for q.URL.Path == "/endless" {
			n, err := w.Write(make([]byte, 64<<10))
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	}))
	ctx, cancel := context.WithCancel(t.Context())
	out := &stuck{Responder: &runtimetest.Responder{}, ctx: ctx, entered: make(chan struct{})}
	done := make(chan error, 1)
	go func() { _, err := r.backend.Execute(ctx, r.call("GET", "/endless"), out); done <- err }()
	<-out.entered
	for last := int64(-1); last != sent.Load(); { // until it stands still
		last = sent.Load()
		if callersOf1 { // nobody else is on its connection
			time.Sleep(100 * time.Millisecond)
			continue
		}
		for range 100 {
			r.must(t, r.call("GET", "/"))
		}
		equal(t, "connections", r.Connections(), 1)
	}
	if n := sent.Load(); n > 16<<20 {
		t.Errorf("%d bytes were taken for a caller that reads none", n)
	}
	cancel()
	if e := runtime.AsError(<-done); e == nil || e.Code != runtime.CodeCanceled {
		t.Errorf("the end: %v", e)
	}
}

func (s *stuck) Write([]byte) (int, error) {
	s.once.Do(func() { close(s.entered) })
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func (s *stuck) Informational(int, http.Header) error {
	s.once.Do(func() { close(s.entered) })
	<-s.ctx.Done()
	return s.ctx.Err()
}

// A caller that does not take its 103 holds up nobody else on the connection.
func TestSlowCallerHoldsUpNobody(t *testing.T) {
	r := newRig(t, handled(0, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/hints" {
			w.WriteHeader(103)
			<-q.Context().Done()
		}
	}))
	r.proto = "HTTP/2.0"
	ctx, cancel := context.WithCancel(t.Context())
	out := &stuck{Responder: &runtimetest.Responder{}, ctx: ctx, entered: make(chan struct{})}
	done := make(chan error, 1)
	go func() { _, err := r.backend.Execute(ctx, r.call("GET", "/hints"), out); done <- err }()
	<-out.entered
	for range 10 {
		r.must(t, r.call("GET", "/"))
	}
	equal(t, "connections", r.Connections(), 1)
	cancel()
	if err := <-done; err == nil {
		t.Error("no error for a caller that left")
	}
}

// A caller that leaves resets its stream; the connection goes on.
func TestCancelResetsTheStream(t *testing.T) {
	came, gone := make(chan struct{}), make(chan struct{})
	r := newRig(t, handled(0, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/wait" {
			close(came)
			<-q.Context().Done()
			close(gone)
		}
	}))
	r.proto = "HTTP/2.0"
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := r.backend.Execute(ctx, r.call("GET", "/wait"), &runtimetest.Responder{})
		done <- err
	}()
	<-came
	cancel()
	if e := runtime.AsError(<-done); e == nil || e.Code != runtime.CodeCanceled {
		t.Errorf("the end: %v", e)
	}
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Fatal("the upstream goes on")
	}
	r.must(t, r.call("GET", "/"))
	equal(t, "connections", r.Connections(), 1)
}
