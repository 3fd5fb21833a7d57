//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has accepted itself

package rest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

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
	*http2.Framer
	conn net.Conn
	enc  *hpack.Encoder
	buf  bytes.Buffer
}

// framed serves HTTP/2 with a function that is given each request's head.
func framed(on func(f *frames, h *http2.MetaHeadersFrame)) servicestest.Options {
	return servicestest.Options{H2: func(c net.Conn) {
		f := &frames{Framer: http2.NewFramer(c, c), conn: c}
		f.enc = hpack.NewEncoder(&f.buf)
		f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil || f.WriteSettings() != nil {
			return
		}
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

// head writes fields: "status 200", "x-a b".
func (f *frames) head(stream uint32, end bool, fields ...string) {
	f.buf.Reset()
	for _, field := range fields {
		name, value, _ := strings.Cut(field, " ")
		if name == "status" {
			name = ":status"
		}
		_ = f.enc.WriteField(hpack.HeaderField{Name: name, Value: value})
	}
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: f.buf.Bytes(), EndStream: end, EndHeaders: true})
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
		f.head(h.StreamID, true, "status 204")
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
		f.head(h.StreamID, last, "status 200")
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

// A 304 may say how long the body is that it does not have.
func TestNotModifiedWithALengthOnH2(t *testing.T) {
	r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
		last := h.PseudoValue("path") == "/last"
		f.head(h.StreamID, last, "status 304", "content-length 1234", `etag "v1"`)
		if !last {
			_ = f.WriteData(h.StreamID, true, nil)
		}
	}))
	for _, path := range []string{"/last", "/empty"} {
		answer, _ := r.must(t, r.call("GET", path))
		equal(t, path, fmt.Sprint(answer.Status, answer.Header["Content-Length"], answer.Body), "304 [1234]")
	}
}

func TestBrokenAnswersOnH2(t *testing.T) {
	r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
		switch h.PseudoValue("path") {
		case "/reset":
			f.head(h.StreamID, false, "status 200")
			_ = f.WriteData(h.StreamID, false, []byte("part"))
			_ = f.WriteRSTStream(h.StreamID, http2.ErrCodeInternal)
		case "/short":
			f.head(h.StreamID, false, "status 200", "content-length 100")
			_ = f.WriteData(h.StreamID, true, []byte("part"))
		case "/cut":
			f.head(h.StreamID, false, "status 200")
			_ = f.WriteData(h.StreamID, false, []byte("part"))
			_ = f.conn.Close()
		case "/refused":
			_ = f.WriteRSTStream(h.StreamID, http2.ErrCodeInternal)
		case "/large":
			for range 20 {
				f.head(h.StreamID, true, "status 200", "x-big "+strings.Repeat("x", 15<<10))
			}
		case "/hints":
			for range 100 {
				f.head(h.StreamID, false, "status 103")
			}
		case "/invalid":
			f.head(h.StreamID, true, "status no")
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
		for {
			n, err := w.Write(make([]byte, 64<<10))
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	}))
	ctx, cancel := context.WithCancel(t.Context())
	out := &stuck{Responder: &runtimetest.Responder{}, ctx: ctx, entered: make(chan struct{})}
	done := make(chan error, 1)
	go func() { _, err := r.backend.Execute(ctx, r.call("GET", "/"), out); done <- err }()
	<-out.entered
	for last := int64(-1); last != sent.Load(); time.Sleep(100 * time.Millisecond) { // until it stands still
		last = sent.Load()
	}
	if n := sent.Load(); n > 16<<20 {
		t.Errorf("%d bytes were taken for a caller that reads none", n)
	}
	cancel()
	if e := runtime.AsError(<-done); e == nil || e.Code != runtime.CodeCanceled {
		t.Errorf("the end: %v", e)
	}
}

// stuck takes nothing until its context ends.
type stuck struct {
	*runtimetest.Responder
	ctx     context.Context
	entered chan struct{}
	once    sync.Once
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

// Requests share a connection up to what the upstream allows, then there is a
// second one; each is answered.
func TestConnectionsAreSharedOnH2(t *testing.T) {
	var at, most atomic.Int64
	r := newRig(t, handled(10, func(w http.ResponseWriter, q *http.Request) {
		for n := at.Add(1); ; {
			if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
				break
			}
		}
		defer at.Add(-1)
		time.Sleep(time.Millisecond)
		_, _ = io.WriteString(w, q.URL.Path)
	}))
	r.proto = "HTTP/2.0"
	r.must(t, r.call("GET", "/first")) // the settings have come
	var wait sync.WaitGroup
	for i := range 30 {
		wait.Go(func() {
			for j := range 10 {
				path := fmt.Sprintf("/%d/%d", i, j)
				answer, _, err := r.do(t, r.call("GET", path))
				for err != nil && strings.Contains(err.Error(), "PROTOCOL_ERROR") {
					// The double counts a stream until it knows that the end of it was written,
					// which the next request may overtake.
					answer, _, err = r.do(t, r.call("GET", path))
				}
				if err != nil || answer.Body != path {
					t.Errorf("%s: %q %v", path, answer.Body, err)
				}
			}
		})
	}
	wait.Wait()
	if n := r.Connections(); n > 10 {
		t.Errorf("%d connections for 30 requests at a time, 10 on each", n)
	}
	if most.Load() < 2 {
		t.Error("requests went one by one")
	}
}

// Connections that were dialled under one trust are not used under another.
func TestTrustIsNotShared(t *testing.T) {
	r := newRig(t, handled(0, func(http.ResponseWriter, *http.Request) {}))
	r.must(t, r.call("GET", "/"))
	other := r.call("GET", "/")
	other.Request.Caller.Token = runtime.NewSecret("kmb_x")
	r.must(t, other)
	r.must(t, other)
	r.must(t, r.call("GET", "/"))
	equal(t, "connections", r.Connections(), 2)
}

// What the upstream has not acted on is sent again on another connection, if
// the body can be.
func TestUnprocessedRequestsGoAgain(t *testing.T) {
	for name, refuse := range map[string]func(f *frames, stream uint32){
		"GOAWAY before it":      func(f *frames, stream uint32) { _ = f.WriteGoAway(stream-2, http2.ErrCodeNo, nil) },
		"the stream is refused": func(f *frames, stream uint32) { _ = f.WriteRSTStream(stream, http2.ErrCodeRefusedStream) },
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			refused := map[string]bool{}
			r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
				path := h.PseudoValue("path")
				mu.Lock()
				first := h.StreamID > 1 && !refused[path]
				refused[path] = refused[path] || first
				mu.Unlock()
				if first {
					refuse(f, h.StreamID)
					return
				}
				f.head(h.StreamID, true, "status 200")
			}))
			r.must(t, r.call("GET", "/")) // stream 1
			r.must(t, r.call("GET", "/again"))
			r.must(t, r.call("GET", "/"))
			whole := r.call("POST", "/whole")
			whole.Request.Raw = nil
			whole.Action.HTTP.Method, whole.Action.HTTP.Path = "POST", "/whole"
			r.must(t, whole)
			r.must(t, r.call("GET", "/"))
			reader, writer := io.Pipe()
			go func() { _, _ = io.WriteString(writer, "x"); _ = writer.CloseWithError(io.ErrUnexpectedEOF) }()
			if _, _, err := r.do(t, body(r.call("POST", "/stream"), reader, -1)); err == nil {
				t.Error("a body that was read from was sent again")
			}
			_ = reader.Close() // it may not have been read from
		})
	}
}

// GOAWAY lets the running requests finish and no new one begin.
func TestGoAwayFinishes(t *testing.T) {
	r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
		f.head(h.StreamID, false, "status 200")
		if h.PseudoValue("path") == "/last" {
			_ = f.WriteGoAway(h.StreamID, http2.ErrCodeNo, nil)
		}
		_ = f.WriteData(h.StreamID, true, []byte("done"))
	}))
	answer, _ := r.must(t, r.call("GET", "/last"))
	equal(t, "the running one", answer.Body, "done")
	r.must(t, r.call("GET", "/next"))
	equal(t, "connections", r.Connections(), 2)
}

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

// What goes wrong before a request leaves is told as ever.
func TestDialErrorsOnH2(t *testing.T) {
	refusing := newRig(t, handled(0, nil), func(o *rest.Options) { o.Dialer = refuser{} })
	refusing.refused(t, refusing.call("GET", "/"), runtime.CodeEgressDenied, "")
	ours := errors.New("a root of ours")
	untrusted := newRig(t, handled(0, nil), func(o *rest.Options) {
		o.TLS.VerifyConnection = func(tls.ConnectionState) error { return ours }
	})
	e := untrusted.refused(t, untrusted.call("GET", "/"), runtime.CodeUpstreamTLS, "")
	if !errors.Is(e, ours) || !errors.Is(e, runtime.ErrNotSent) {
		t.Errorf("the cause is lost: %v", e)
	}
	silent := newRig(t, framed(func(*frames, *http2.MetaHeadersFrame) {}), func(o *rest.Options) { o.HeaderTimeout = 50 * time.Millisecond })
	silent.refused(t, silent.call("GET", "/"), runtime.CodeTimeout, "")
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
