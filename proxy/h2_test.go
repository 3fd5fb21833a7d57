package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/runtime"
)

// What a stream asks for arrives as it was asked, without fields of a hop and
// without any that nobody wrote.
func TestH2Request(t *testing.T) {
	r := newRig(t, nil)
	received := r.upstream("api.good.test:443", answering(okAnswer))
	raw := r.rawH2("api.good.test:443")
	stream := raw.Open(true, ":method GET", ":scheme https", ":authority api.good.test", ":path /open/a%7Eb?x=%20",
		"x-kept one", "x-kept two", "cookie a=1", "cookie b=2; c=3", "te trailers", "proxy-authorization Basic a2V5")
	if status, _, reset, err := raw.wait(stream); status != "200" {
		t.Fatal(status, reset, err)
	}
	got := received()
	want := "GET /open/a%7Eb?x=%20 HTTP/1.1\r\nHost: api.good.test:443\r\nCookie: a=1; b=2; c=3\r\nTe: trailers\r\nX-Kept: one\r\nX-Kept: two\r\nConnection: close\r\n\r\n"
	if got != want {
		t.Errorf("the upstream got %q, want %q", got, want)
	}
	if rec := r.outcome(); rec.Err != nil || rec.Action.Ref != "good.open" {
		t.Errorf("recorded %+v", rec)
	}
}

// The answer's fields are the upstream's, all of them and no others.
func TestH2AnswerFields(t *testing.T) {
	for _, c := range []struct{ method, answer, want, body string }{
		{"GET", "200 OK\r\nConnection: keep-alive, X-Hop\r\nX-Hop: leak\r\nKeep-Alive: timeout=5\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 6\r\n\r\n<html>",
			"map[Content-Length:[6] Set-Cookie:[a=1 b=2]]", "<html>"},
		{"GET", "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n<html>\r\n0\r\n\r\n", "map[]", "<html>"},
		{"GET", "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "map[]", ""},
		{"GET", "200 OK\r\nContent-Length: 0\r\n\r\n", "map[Content-Length:[0]]", ""},
		{"GET", "204 No Content\r\nX-A: b\r\n\r\n", "map[X-A:[b]]", ""},
		{"GET", "304 Not Modified\r\nEtag: \"v\"\r\n\r\n", "map[Etag:[\"v\"]]", ""},
		{"HEAD", "200 OK\r\nContent-Length: 1234\r\n\r\n", "map[Content-Length:[1234]]", ""},
	} {
		r := newRig(t, nil)
		r.upstream("api.good.test:443", answering("HTTP/1.1 "+c.answer))
		resp, body := r.openH2("api.good.test:443").get(c.method, "/open")
		if got := fmt.Sprint(resp.Header); got != c.want || body != c.body || !strings.HasPrefix(c.answer, resp.Status) {
			t.Errorf("%q became %s %s %q", c.answer, resp.Status, got, body)
		}
	}
}

// 1xx answers come before the answer; trailers pass both ways, announced or not.
func TestH2HintsAndTrailers(t *testing.T) {
	r := newRig(t, nil)
	received := r.upstream("api.good.test:443", answering("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"+
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Grpc-Status\r\n\r\n2\r\nok\r\n0\r\nGrpc-Status: 0\r\nX-Late: 1\r\n\r\n"))
	c := r.openH2("api.good.test:443")
	var hints []string
	q := c.request("POST", "/open", io.MultiReader(strings.NewReader("abc")))
	q.Trailer = http.Header{"X-Sum": {"42"}}
	q = q.WithContext(httptrace.WithClientTrace(q.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		hints = append(hints, fmt.Sprint(code, h))
		return nil
	}}))
	resp, err := c.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "ok" {
		t.Errorf("%q %v", body, err)
	}
	if fmt.Sprint(hints) != "[103 map[Link:[</a.css>]]]" {
		t.Errorf("hints %v", hints)
	}
	if resp.Trailer.Get("Grpc-Status") != "0" || resp.Trailer.Get("X-Late") != "1" || len(resp.Header) > 0 {
		t.Errorf("trailers %v, header %v", resp.Trailer, resp.Header)
	}
	if got := received(); !strings.HasSuffix(got, "3\r\nabc\r\n0\r\nX-Sum: 42\r\n\r\n") {
		t.Errorf("the upstream got %q", got)
	}
}

// Trailers of a request pass whether they were announced or not.
func TestH2TrailersOfRequests(t *testing.T) {
	r := newRig(t, nil)
	received := r.upstream("api.good.test:443", answering(okAnswer))
	c := r.rawH2("api.good.test:443")
	head := append([]string{":method POST"}, goodHead[1:]...)
	stream := c.Open(false, head...)
	_ = c.WriteData(stream, false, []byte("abc"))
	_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.Block("x-late 42", "x-late 43"), EndStream: true, EndHeaders: true})
	if status, _, reset, err := c.wait(stream); status != "200" {
		t.Fatal(status, reset, err)
	}
	if got := received(); !strings.HasSuffix(got, "3\r\nabc\r\n0\r\nX-Late: 42\r\nX-Late: 43\r\n\r\n") {
		t.Errorf("the upstream got %q", got)
	}
	for _, bad := range []string{":path /other", "connection x-late", "X-Late 1", "x-late a\nb"} {
		stream := c.Open(false, head...)
		_ = c.WriteData(stream, false, []byte("abc"))
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.Block(bad), EndStream: true, EndHeaders: true})
		if status, _, reset, err := c.wait(stream); reset != http2.ErrCodeProtocol {
			t.Errorf("%q: %s, reset %v, %v", bad, status, reset, err)
		}
	}
}

// Each event of a stream arrives before the next is sent, both ways at once.
func TestH2Streaming(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("api.good.test:443", func(c net.Conn, br *bufio.Reader) {
		q, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		event := make([]byte, 4)
		for {
			if _, err := io.ReadFull(q.Body, event); err != nil {
				break
			}
			_, _ = fmt.Fprintf(c, "4\r\n%s\r\n", event)
		}
		_, _ = io.WriteString(c, "0\r\n\r\n")
	})
	c := r.openH2("api.good.test:443")
	body, events := io.Pipe()
	resp, err := c.RoundTrip(c.request("POST", "/open", body)) // the head comes before any event
	if err != nil {
		t.Fatal(err)
	}
	back := make([]byte, 4)
	for i := range 5 {
		event := fmt.Sprintf("ev%02d", i)
		_, _ = io.WriteString(events, event)
		if _, err := io.ReadFull(resp.Body, back); err != nil || string(back) != event {
			t.Fatalf("%q came back as %q: %v", event, back, err)
		}
	}
	_ = events.Close()
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q %v", rest, err)
	}
}

// An answer that was cut is reset, small or large, never ended.
func TestH2TruncatedAnswer(t *testing.T) {
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\npart",
		"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\npart",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n",
	} {
		r := newRig(t, nil)
		r.upstream("api.good.test:443", answering(answer))
		c := r.openH2("api.good.test:443")
		resp, err := c.RoundTrip(c.request("GET", "/open", nil))
		if err == nil {
			_, err = io.ReadAll(resp.Body)
		}
		var reset http2.StreamError
		if !errors.As(err, &reset) {
			t.Errorf("%q ended with %v", answer, err)
		}
		if rec := r.outcome(); rec.Err == nil || rec.Err.Reason != runtime.ReasonTruncated {
			t.Errorf("recorded %+v", rec.Err)
		}
		c.get("GET", "/denied") // the connection goes on
	}
}

// A stream is held to the same strictness as a head of HTTP/1.1, and refused
// without a byte upstream; the next one is served.
func TestH2Refusals(t *testing.T) {
	many := slices.Clone(goodHead)
	for i := range 300 {
		many = append(many, fmt.Sprintf("x-%d 1", i))
	}
	head := func(changed ...string) []string {
		out := slices.Clone(goodHead)
		for _, c := range changed {
			name, _, _ := strings.Cut(c, " ")
			if i := slices.IndexFunc(out, func(f string) bool { return strings.HasPrefix(f, name+" ") }); i >= 0 {
				out[i] = c
			} else {
				out = append(out, c)
			}
		}
		return out
	}
	var trailers strings.Builder
	for n := range 257 {
		fmt.Fprintf(&trailers, "x-%d,", n)
	}
	r := newRig(t, nil)
	received := r.upstream("api.good.test:443", answering(okAnswer))
	c := r.rawH2("api.good.test:443")
	for _, bad := range []struct {
		id     string
		fields []string
		status string
		code   runtime.Code
	}{
		{"foreign authority", head(":authority other.test"), "421", runtime.CodeMisdirected},
		{"other port", head(":authority api.good.test:444"), "421", runtime.CodeMisdirected},
		{"other scheme", head(":scheme http"), "421", runtime.CodeMisdirected},
		{"no authority", slices.DeleteFunc(head(), func(f string) bool { return strings.HasPrefix(f, ":authority") }), "400", runtime.CodeInvalidInput},
		{"CONNECT", []string{":method CONNECT", ":authority api.good.test"}, "405", runtime.CodeInvalidInput},
		{"TRACE", head(":method TRACE"), "405", runtime.CodeInvalidInput},
		{"method", head(":method GE T"), "400", runtime.CodeInvalidInput},
		{"fragment", head(":path /open#x"), "400", runtime.CodeAmbiguousTarget},
		{"blank", head(":path /open x"), "400", runtime.CodeAmbiguousTarget},
		{"query escape", head(":path /open?%zz"), "400", runtime.CodeAmbiguousTarget},
		{"dot segments", head(":path /open/../denied"), "400", runtime.CodeAmbiguousTarget},
		{"empty segment", head(":path //open"), "400", runtime.CodeAmbiguousTarget},
		{"star", head(":path *"), "400", runtime.CodeAmbiguousTarget},
		{"unmatched", head(":path /nothing"), "403", runtime.CodeUnknownAction},
		{"denied", head(":path /denied"), "403", runtime.CodeForbidden},
		{"too many fields", many, "431", runtime.CodeInvalidInput},
		{"too many trailers", append(head(), "trailer "+trailers.String()), "431", runtime.CodeInvalidInput},
		{"too large", head("x-big " + strings.Repeat("x", 70<<10)), "431", runtime.CodeInvalidInput},
		{"two lengths", append(head(), "content-length 1", "content-length 1"), "400", runtime.CodeAmbiguousTarget},
		{"a length and no body", head("content-length 5"), "400", runtime.CodeInvalidInput},
		{"only a foreign host", []string{":method GET", ":scheme https", ":path /open", "host other.test"}, "421", runtime.CodeMisdirected},
		{"userinfo", head(":authority user@api.good.test"), "400", runtime.CodeAmbiguousTarget},
		{"foreign scheme", head(":scheme ftp"), "421", runtime.CodeMisdirected},
		{"path escape", head(":path /%zz"), "400", runtime.CodeAmbiguousTarget},
		{"expects the impossible", head("expect 200-ok"), "417", runtime.CodeInvalidInput},
		{"announces framing", head("trailer x-a, Content-Length"), "400", runtime.CodeInvalidInput},
		{"length is no number", head("content-length +0"), "400", runtime.CodeAmbiguousTarget},
	} {
		var stream uint32
		if bad.id == "too large" { // over several frames
			stream = c.Open(true, bad.fields...)
		} else {
			stream = c.Open(true, bad.fields...)
		}
		status, header, reset, err := c.wait(stream)
		if err != nil {
			t.Fatalf("%s: %v", bad.id, err)
		}
		if status != bad.status || !strings.HasPrefix(header.Get("Kimbap-Error"), string(bad.code)) {
			t.Errorf("%s: got %s (reset %v) %v, want %s %s", bad.id, status, reset, header, bad.status, bad.code)
		}
		if rec := r.outcome(); rec.Err == nil || rec.Err.Code != bad.code {
			t.Errorf("%s: recorded %+v", bad.id, rec.Err)
		}
	}
	if received() != "" {
		t.Errorf("the upstream got %q", received())
	}
	if status, _, reset, err := c.wait(c.Open(true, goodHead...)); status != "200" {
		t.Errorf("the next: %s %v %v", status, reset, err)
	}
	r.outcome()
	// A host field alone is the authority (RFC 9113 section 8.3.1), and judged as it.
	if status, _, reset, err := c.wait(c.Open(true, ":method GET", ":scheme https", ":path /open", "host api.good.test")); status != "200" {
		t.Errorf("host only: %s %v %v", status, reset, err)
	}
	if rec := r.outcome(); rec.Action.Ref != "good.open" || rec.Target.Authority != "api.good.test:443" {
		t.Errorf("host only: judged as %s at %s", rec.Action.Ref, rec.Target.Authority)
	}
}

// What is no HTTP is told so, recorded, and its stream reset behind the answer (RFC 9113
// section 8.1.1). It goes no further.
func TestH2Malformed(t *testing.T) {
	r := newRig(t, nil)
	c := r.rawH2("api.good.test:443")
	get := []string{":method GET", ":scheme https", ":authority api.good.test"}
	with := func(head []string, fields ...string) []string { return append(slices.Clone(head), fields...) }
	for _, fields := range [][]string{
		with(goodHead, ":path /open"),
		with(goodHead, ":authority other.test"),
		with(goodHead, ":method DELETE"),
		with(goodHead, ":protocol websocket"),
		{":method CONNECT", ":scheme https", ":authority api.good.test", ":path /open", ":protocol websocket"},
		{":method CONNECT", ":scheme https", ":authority api.good.test", ":path /open"},
		{":method CONNECT"},
		with([]string{"x-first 1"}, goodHead...),
		with(goodHead, "X-Upper 1"), with(goodHead, "x(y) 1"), with(goodHead, " 1"),
		with(goodHead, "x-nul a\x00b"), with(goodHead, "x-line a\r\nb"), with(goodHead, "x-del a\x7f"),
		with(goodHead, "x-blank  a"), with(goodHead, "x-blank a "), with(goodHead, "x-blank a\t"),
		with(get, ":path open"), with(get, ":path https://api.good.test/open"), with(get, ":path "), get,
		with(get, ":path /open\r\nX: y"), with(get, ":path /open HTTP/1.1\r\nHost: other.test\r\n\r\n"),
		{":method GET", ":authority api.good.test", ":path /open"},
		{":scheme https", ":authority api.good.test", ":path /open"},
		{":method GET", ":scheme https", ":authority ", ":path /open"},
		with(goodHead, "transfer-encoding chunked"), with(goodHead, "connection close"), with(goodHead, "upgrade h2c"),
		with(goodHead, "keep-alive x"), with(goodHead, "proxy-connection x"), with(goodHead, "te gzip"), with(goodHead, "te trailers, gzip"),
		with(goodHead, "content-length 1", "content-length 1"), with(goodHead, "content-length 4"), with(goodHead, "content-length +0"),
	} {
		stream := c.Open(true, fields...)
		status, header, reset, err := c.wait(stream)
		if status != "400" || header.Get("Kimbap-Error") == "" {
			t.Errorf("%q: %s %v, reset %v, %v", fields, status, header, reset, err)
			continue
		}
		if _, _, reset, err := c.wait(stream); reset != http2.ErrCodeProtocol {
			t.Errorf("%q: after the answer %v, %v", fields, reset, err)
		}
		if rec := r.outcome(); rec.Err == nil || rec.Target.Authority != "api.good.test:443" {
			t.Errorf("%q: recorded %+v", fields, rec)
		}
	}
	// The table of what was decoded is whole: the next one is served.
	if status, _, reset, err := c.wait(c.Open(true, ":method GET", ":scheme https", ":authority api.good.test", ":path /denied")); status != "403" {
		t.Errorf("the next: %s %v %v", status, reset, err)
	}
	if len(r.stages.dials) > 0 || len(r.stages.intents) > 0 {
		t.Errorf("dialled %v", r.stages.dials)
	}
}

// A body that is not what was announced is recorded as that, and not as a client that went
// away. The stream is reset, and the connection goes on.
func TestH2MalformedBodies(t *testing.T) {
	r := newRig(t, nil)
	received := r.upstream("api.good.test:443", answering(okAnswer))
	c := r.rawH2("api.good.test:443")
	for name, send := range map[string]func(stream uint32) error{
		"short": func(stream uint32) error { return c.WriteData(stream, true, []byte("abc")) },
		"long":  func(stream uint32) error { return c.WriteData(stream, true, []byte("abcde")) },
		"no trailer": func(stream uint32) error {
			return c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.Block("X-Upper 1"), EndStream: true, EndHeaders: true})
		},
	} {
		stream := c.Open(false, ":method POST", ":scheme https", ":authority api.good.test", ":path /open", "content-type text/plain", "content-length 4")
		if err := send(stream); err != nil {
			t.Fatal(err)
		}
		if status, _, reset, err := c.wait(stream); reset != http2.ErrCodeProtocol {
			t.Errorf("%s: %s %v, %v", name, status, reset, err)
		}
		if rec := r.outcome(); rec.Err == nil || rec.Err.Code != runtime.CodeAmbiguousTarget {
			t.Errorf("%s: recorded %v", name, rec.Err)
		}
	}
	if strings.Contains(received(), "abcd") {
		t.Errorf("the upstream got %q", received())
	}
	if status, _, _, err := c.wait(c.Open(true, goodHead...)); status != "200" {
		t.Errorf("the next: %s %v", status, err)
	}
}

// A Host field may stand beside :authority when it names the same; servers take either.
func TestH2HostBesideAuthority(t *testing.T) {
	r := newRig(t, nil)
	received := r.upstream("api.good.test:443", answering(okAnswer))
	c := r.rawH2("api.good.test:443")
	for _, bad := range []struct {
		hosts  []string
		status string
		code   runtime.Code
	}{
		{[]string{"host other.test"}, "421", runtime.CodeMisdirected},
		{[]string{"host api.good.test:444"}, "421", runtime.CodeMisdirected},
		{[]string{"host api.good.test:80"}, "421", runtime.CodeMisdirected},
		{[]string{"host api.good.test", "host api.good.test"}, "400", runtime.CodeAmbiguousTarget},
		{[]string{"host api.good.test", "host other.test"}, "400", runtime.CodeAmbiguousTarget},
		{[]string{"host "}, "400", runtime.CodeInvalidInput},
		{[]string{"host user@api.good.test"}, "400", runtime.CodeAmbiguousTarget},
	} {
		status, header, reset, err := c.wait(c.Open(true, append(slices.Clone(goodHead), bad.hosts...)...))
		if status != bad.status || !strings.HasPrefix(header.Get("Kimbap-Error"), string(bad.code)) {
			t.Errorf("%q: %s %v, reset %v, %v", bad.hosts, status, header, reset, err)
		}
		if rec := r.outcome(); rec.Err == nil || rec.Err.Code != bad.code || rec.Target.Authority != "api.good.test:443" {
			t.Errorf("%q: recorded %+v", bad.hosts, rec)
		}
	}
	if got := received(); got != "" {
		t.Errorf("the upstream got %q", got)
	}
	for _, host := range []string{"host api.good.test", "host api.good.test:443", "host API.Good.Test."} {
		if status, _, reset, err := c.wait(c.Open(true, append(slices.Clone(goodHead), host)...)); status != "200" {
			t.Errorf("%q: %s, reset %v, %v", host, status, reset, err)
		}
		r.outcome()
	}
}

// A client that cancels its stream cancels the request upstream.
func TestH2Cancel(t *testing.T) {
	r := newRig(t, nil)
	came, gone := make(chan struct{}), make(chan struct{})
	r.upstream("api.good.test:443", func(c net.Conn, br *bufio.Reader) {
		_, _ = http.ReadRequest(br)
		close(came)
		_, _ = br.ReadByte()
		close(gone)
	})
	c := r.openH2("api.good.test:443")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-came; cancel() }()
	if _, err := c.RoundTrip(c.request("GET", "/open", nil).WithContext(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	<-gone
	r.outcome()
	c.get("GET", "/denied")
}

// Five MiB up and down, byte for byte, four times at once on one connection.
func TestH2LargeBodies(t *testing.T) {
	payload := bytes.Repeat([]byte("0123456789abcdef"), 5<<16)
	want := sha256.Sum256(payload)
	r := newRig(t, nil)
	r.upstream("api.good.test:443", func(c net.Conn, br *bufio.Reader) {
		q, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, _ := io.ReadAll(q.Body)
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(body))
		_, _ = c.Write(body)
	})
	c := r.openH2("api.good.test:443")
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			resp, err := c.RoundTrip(c.request("POST", "/open", bytes.NewReader(payload)))
			if err != nil {
				t.Error(err)
				return
			}
			if body, err := io.ReadAll(resp.Body); err != nil || sha256.Sum256(body) != want {
				t.Errorf("%s, %d bytes came back, %v", resp.Status, len(body), err)
			}
		})
	}
	wait.Wait()
}
