package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

const openGood = "GET /open HTTP/1.1\r\nHost: api.good.test\r\n\r\n"

// PC-001: what is for one hop only does not go further, and a client that
// closes its connection does not close the upstream's.
func TestHopFieldsOfRequest(t *testing.T) {
	r := newRig(t, nil)
	received := r.upstream("api.good.test:443", answering(okAnswer))
	inside := r.open("api.good.test:443")
	inside.send("GET /open HTTP/1.1\r\nHost: api.good.test\r\nConnection: X-Secret, close\r\nX-Secret: hop\r\nKeep-Alive: 5\r\n" +
		"TE: trailers, deflate\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic a2V5\r\nX-Kept: one\r\nX-Kept: two\r\n\r\n")
	inside.get("GET")
	inside.ended() // it asked for that
	got := received()
	for _, gone := range []string{"X-Secret", "Keep-Alive", "deflate", "Proxy-"} {
		if strings.Contains(got, gone) {
			t.Errorf("%s reached the upstream: %q", gone, got)
		}
	}
	if !strings.Contains(got, "X-Kept: one\r\nX-Kept: two\r\n") || !strings.Contains(got, "Te: trailers\r\n") {
		t.Errorf("end-to-end fields are missing: %q", got)
	}
}

// PC-002 and more: the answer's fields are the upstream's, all of them and no
// others.
func TestAnswerFields(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("api.good.test:443", answering("HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\nX-Hop: leak\r\nKeep-Alive: timeout=5\r\n"+
		"Proxy-Authenticate: Basic\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 6\r\n\r\n<html>"))
	inside := r.open("api.good.test:443")
	inside.send(openGood)
	resp, body := inside.get("GET")
	want := http.Header{"Set-Cookie": {"a=1", "b=2"}, "Content-Length": {"6"}}
	if fmt.Sprint(resp.Header) != fmt.Sprint(want) || body != "<html>" {
		t.Errorf("got %v %q, want %v", resp.Header, body, want)
	}
}

// Proxy-Status is for the client, by whichever proxy on the way it was written (RFC 9209).
func TestProxyStatusReachesTheClient(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("api.good.test:443", answering("HTTP/1.1 504 Gateway Timeout\r\nProxy-Status: edge; error=connection_timeout\r\nContent-Length: 2\r\n\r\nno"))
	inside := r.open("api.good.test:443")
	inside.send(openGood)
	if resp, _ := inside.get("GET"); resp.Header.Get("Proxy-Status") != "edge; error=connection_timeout" {
		t.Errorf("%v", resp.Header)
	}
}

// PC-004: 100 comes when the body is wanted, a refusal comes without it.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	received := r.upstream("api.good.test:443", answering(okAnswer))
	head := " HTTP/1.1\r\nHost: api.good.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
	inside := r.open("api.good.test:443")
	inside.send("POST /open" + head)
	if resp := inside.answer("POST"); resp.StatusCode != 100 {
		t.Fatalf("got %s", resp.Status)
	}
	inside.send("hello")
	if resp, _ := inside.get("POST"); resp.StatusCode != 200 || !strings.HasSuffix(received(), "hello") {
		t.Fatalf("%s, upstream got %q", resp.Status, received())
	}
	inside.send("POST /denied" + head)
	inside.refused(403, runtime.CodeForbidden)
	inside.ended() // the body may or may not be on its way
}

// PC-005: 103 is passed on.
func TestEarlyHints(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("api.good.test:443", answering("HTTP/1.1 103 Early Hints\r\nLink: </s.css>; rel=preload\r\n\r\n"+okAnswer))
	inside := r.open("api.good.test:443")
	inside.send(openGood)
	hints := inside.answer("GET")
	if hints.StatusCode != 103 || hints.Header.Get("Link") == "" {
		t.Errorf("got %s %v", hints.Status, hints.Header)
	}
	if resp, body := inside.get("GET"); resp.StatusCode != 200 || body != "ok" || resp.Header.Get("Link") != "" {
		t.Errorf("got %s %v %q", resp.Status, resp.Header, body)
	}
}

// PC-006, PC-007: answers without a body keep the connection in step.
func TestBodilessAnswers(t *testing.T) {
	for _, c := range []struct{ id, method, answer, length, body string }{
		{"PC-006 HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nETag: \"x\"\r\n\r\n", "1234", ""},
		{"PC-007 204", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", "", ""},
		{"PC-007 304", "GET", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\nETag: \"x\"\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "", ""},
		{"PC-007 304 that says a length", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 1234\r\nContent-Type: text/plain\r\n\r\n", "1234", ""},
		{"PC-007 205 with a body", "GET", "HTTP/1.1 205 Reset Content\r\nContent-Length: 5\r\n\r\nhello", "5", "hello"},
		{"PC-007 205 in chunks", "GET", "HTTP/1.1 205 Reset Content\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "", "hello"},
		{"PC-007 205", "GET", "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", "0", ""},
	} {
		t.Run(c.id, func(t *testing.T) {
			r := newRig(t, nil)
			r.upstream("api.good.test:443", answering(c.answer))
			inside := r.open("api.good.test:443")
			for range 2 {
				inside.send(c.method + " /open HTTP/1.1\r\nHost: api.good.test\r\n\r\n")
				resp, body := inside.get(c.method)
				if body != c.body || resp.Header.Get("Content-Length") != c.length || resp.TransferEncoding != nil && c.body == "" {
					t.Fatalf("%s %v %v %q", resp.Status, resp.Header, resp.TransferEncoding, body)
				}
				if got := resp.Header.Get("Content-Type"); got != "" != strings.Contains(c.answer, "Content-Type") {
					t.Errorf("Content-Type: %q", got)
				}
			}
		})
	}
}

// PC-011: a chunked body that could end in two places ends the connection, and
// nothing after it is a request.
func TestBadChunks(t *testing.T) {
	for _, bad := range []string{
		"3\nabc\r\n0\r\n\r\n", "3;\nxx\r\nabc\r\n0\r\n\r\n", "0x3\r\nabc\r\n0\r\n\r\n", "-3\r\nabc\r\n0\r\n\r\n",
		"fffffffffffffffff\r\nabc", "3\r\nabcd\r\n0\r\n\r\n", "3;" + strings.Repeat("x", 1<<20), " 3\r\nabc\r\n0\r\n\r\n",
		"0\r\nTrailer Name: x\r\n\r\n", "0\r\n folded\r\n\r\n", "3\r\nabc\n0\r\n\r\n",
	} {
		t.Run(fmt.Sprintf("%.12q", bad), func(t *testing.T) {
			r := newRig(t, nil)
			received := r.upstream("api.good.test:443", answering(okAnswer))
			inside := r.open("api.good.test:443")
			_, _ = io.WriteString(inside, "POST /open HTTP/1.1\r\nHost: api.good.test\r\nTransfer-Encoding: chunked\r\n\r\n"+bad+"GET /open/smuggled HTTP/1.1\r\nHost: api.good.test\r\n\r\n")
			if resp, err := http.ReadResponse(inside.br, nil); err == nil && (resp.StatusCode != 400 || !resp.Close) {
				t.Errorf("got %s, says that the connection ends: %t", resp.Status, resp.Close)
			}
			if rec := r.outcome(); rec.Err == nil || rec.Err.Code != runtime.CodeAmbiguousTarget {
				t.Errorf("recorded %v", rec.Err)
			}
			if strings.Contains(received(), "smuggled") {
				t.Errorf("the upstream got %q", received())
			}
		})
	}
}

// A status that no answer has is a fault of the backend, which its caller is told of.
func TestAStatusThatIsNoneIsNotWritten(t *testing.T) {
	for _, status := range []int{-1, 0, 99, 1000} {
		r := newRig(t, func(_ *Options, st *stages) {
			st.execute = func(_ context.Context, _ *runtime.Call, out runtime.Responder) (runtime.Result, error) {
				return reply(out, runtime.Form{}, status, http.Header{"Content-Length": {"2"}}, "ok")
			}
		})
		inside := r.open("api.good.test:443")
		inside.send(openGood)
		inside.refused(500, runtime.CodeInternal)
		if rec := r.outcome(); rec.Panicked {
			t.Errorf("%d: recorded a panic", status)
		}
		if resp, _ := r.openH2("api.good.test:443").get("GET", "/open"); resp.StatusCode != 500 {
			t.Errorf("%d over HTTP/2: %s", status, resp.Status)
		}
	}
}

// PC-016: pipelined requests are judged one by one and answered in order.
func TestPipelining(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("api.good.test:443", answering(okAnswer))
	inside := r.open("api.good.test:443")
	inside.send(openGood + "GET /denied HTTP/1.1\r\nHost: api.good.test\r\n\r\n" + openGood)
	if resp, _ := inside.get("GET"); resp.StatusCode != 200 {
		t.Errorf("first: %s", resp.Status)
	}
	inside.refused(403, runtime.CodeForbidden)
	if resp, _ := inside.get("GET"); resp.StatusCode != 200 {
		t.Errorf("third: %s", resp.Status)
	}
}

// PC-021: an answer that was cut is cut for the client too.
func TestTruncatedAnswer(t *testing.T) {
	for _, c := range []struct{ id, request, answer string }{
		{"length", openGood, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\npart"},
		{"chunked", openGood, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n"},
		{"chunked to a 1.0 client", "GET /open HTTP/1.0\r\nHost: api.good.test\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n"},
	} {
		t.Run(c.id, func(t *testing.T) {
			r := newRig(t, nil)
			r.upstream("api.good.test:443", answering(c.answer))
			inside := r.open("api.good.test:443")
			inside.send(c.request)
			resp := inside.answer("GET")
			if body, err := io.ReadAll(resp.Body); err == nil {
				t.Errorf("a clean end after %q", body)
			}
			if rec := r.outcome(); rec.Err == nil || rec.Err.Reason != runtime.ReasonTruncated {
				t.Errorf("recorded %+v", rec.Err)
			}
		})
	}
}

// PC-023: trailers pass both ways, announced or not.
func TestTrailers(t *testing.T) {
	r := newRig(t, nil)
	received := r.upstream("api.good.test:443", answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Grpc-Status\r\n\r\n2\r\nok\r\n0\r\nGrpc-Status: 0\r\nX-Late: 1\r\n\r\n"))
	inside := r.open("api.good.test:443")
	inside.send("POST /open HTTP/1.1\r\nHost: api.good.test\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 42\r\n\r\n")
	resp, _ := inside.get("POST")
	if resp.Trailer.Get("Grpc-Status") != "0" || resp.Trailer.Get("X-Late") != "1" {
		t.Errorf("trailers %v", resp.Trailer)
	}
	if got := received(); !strings.HasSuffix(got, "3\r\nabc\r\n0\r\nX-Sum: 42\r\n\r\n") {
		t.Errorf("the upstream got %q", got)
	}
}

// A hundred requests on one connection, each answered.
func TestKeepAlive(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("api.good.test:443", answering(okAnswer))
	inside := r.open("api.good.test:443")
	for i := range 100 {
		inside.send(openGood)
		if resp, body := inside.get("GET"); resp.StatusCode != 200 || body != "ok" {
			t.Fatalf("request %d: %s %q", i, resp.Status, body)
		}
	}
}
