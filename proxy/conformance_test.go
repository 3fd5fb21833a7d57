package proxy

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

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

// PC-004: 100 comes when the body is wanted, a refusal comes without it.
func TestExpectContinue(t *testing.T) {
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
			if resp, err := http.ReadResponse(inside.br, nil); err == nil && resp.StatusCode < 400 {
				t.Errorf("got %s", resp.Status)
			}
			r.outcome()
			if strings.Contains(received(), "smuggled") {
				t.Errorf("the upstream got %q", received())
			}
		})
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

// PC-018: a refused CONNECT is an ordinary answer; the connection goes on.
func TestRefusedConnectStaysOpen(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("fine.test:443", func(c net.Conn, br *bufio.Reader) { _, _ = io.Copy(c, br) })
	r.stages.mu.Lock()
	r.stages.deny[runtime.ActionPass] = true
	r.stages.mu.Unlock()
	c := r.dial()
	for range 2 {
		c.send("CONNECT fine.test:443 HTTP/1.1\r\nHost: fine.test:443\r\n\r\n")
		c.refused(403, runtime.CodeForbidden)
	}
	if len(r.stages.dials) > 0 {
		t.Errorf("dialled %v", r.stages.dials)
	}
}

// PC-020: a client that has sent its request and half-closed still gets the
// answer. net/http takes the end for a client that left, so this holds for raw
// tunnels; inside opened ones TLS has no half-close that clients use.
func TestHalfClose(t *testing.T) {
	r := newRig(t, nil)
	sawEnd := make(chan struct{})
	r.upstream("plain.test:80", func(c net.Conn, br *bufio.Reader) {
		_, _ = io.Copy(io.Discard, br)
		close(sawEnd)
		_, _ = io.WriteString(c, okAnswer)
	})
	c := r.dial()
	c.send("CONNECT plain.test:80 HTTP/1.1\r\nHost: plain.test:80\r\n\r\n")
	c.answer("CONNECT")
	c.send("GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n")
	_ = c.Conn.(*net.TCPConn).CloseWrite()
	<-sawEnd
	if resp, body := c.get("GET"); resp.StatusCode != 200 || body != "ok" {
		t.Errorf("%s %q", resp.Status, body)
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

// PC-022: each event of a stream arrives before the next is sent.
func TestStreaming(t *testing.T) {
	r := newRig(t, nil)
	seen := make(chan struct{})
	r.upstream("api.good.test:443", func(c net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		for range 5 {
			<-seen
			_, _ = io.WriteString(c, "9\r\ndata: 1\n\n\r\n")
		}
		_, _ = io.WriteString(c, "0\r\n\r\n")
	})
	inside := r.open("api.good.test:443")
	inside.send(openGood)
	resp := inside.answer("GET") // the head comes before any event
	event := make([]byte, 9)
	for range 5 {
		seen <- struct{}{}
		if _, err := io.ReadFull(resp.Body, event); err != nil {
			t.Fatal(err)
		}
	}
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q %v", rest, err)
	}
}

// PC-022: a stream lives as long as something moves in it, beyond the
// timeout for one that does not.
func TestALiveStreamIsNotCut(t *testing.T) {
	const idle = 300 * time.Millisecond
	r := newRig(t, func(o *Options, _ *stages) { o.Limits.IdleTimeout = idle })
	r.upstream("api.good.test:443", func(c net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		for range 30 { // three times the timeout in all
			time.Sleep(idle / 10)
			_, _ = io.WriteString(c, "9\r\ndata: 1\n\n\r\n")
		}
		_, _ = io.WriteString(c, "0\r\n\r\n")
	})
	inside := r.open("api.good.test:443")
	inside.send(openGood)
	if resp, body := inside.get("GET"); resp.StatusCode != 200 || len(body) != 30*9 {
		t.Errorf("%s, %d bytes", resp.Status, len(body))
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

// PC-026: the ways to show a token, at CONNECT and in absolute-form.
func TestTokens(t *testing.T) {
	for _, c := range []struct {
		id      string
		require bool
		fields  string
		ok      bool
	}{
		{"none, none needed", false, "", true},
		{"none", true, "", false},
		{"as user", true, "Proxy-Authorization: " + basic(goodToken, "") + "\r\n", true},
		{"as user with a password", true, "Proxy-Authorization: " + basic(goodToken, "x") + "\r\n", true},
		{"as password", true, "Proxy-Authorization: " + basic("kimbap", goodToken) + "\r\n", true},
		{"bearer", true, "proxy-authorization: bearer " + goodToken + "\r\n", true},
		{"wrong", true, "Proxy-Authorization: " + basic("", "kmb_wrong") + "\r\n", false},
		{"wrong, none needed", false, "Proxy-Authorization: " + basic("", "kmb_wrong") + "\r\n", false},
		{"unreadable, none needed", false, "Proxy-Authorization: Digest x\r\n", false},
		{"twice", false, "Proxy-Authorization: Bearer " + goodToken + "\r\nProxy-Authorization: Bearer " + goodToken + "\r\n", false},
	} {
		t.Run(c.id, func(t *testing.T) {
			r := newRig(t, func(o *Options, _ *stages) { o.RequireToken = c.require })
			received := r.upstream("plain.test:80", answering(okAnswer))
			for _, line := range []string{"CONNECT api.good.test:443", "GET http://plain.test/"} {
				host := strings.TrimSuffix(strings.TrimPrefix(strings.Fields(line)[1], "http://"), "/")
				conn := r.dial()
				conn.send(line + " HTTP/1.1\r\nHost: " + host + "\r\n" + c.fields + "\r\n")
				resp := conn.answer(strings.Fields(line)[0])
				if (resp.StatusCode == 200) != c.ok {
					t.Errorf("%s: %s", line, resp.Status)
				}
				if !c.ok && (resp.StatusCode != 407 || resp.Header.Get("Proxy-Authenticate") != `Basic realm="kimbap"`) {
					t.Errorf("%s: %s without a challenge", line, resp.Status)
				}
				_ = conn.Close()
			}
			if strings.Contains(strings.ToLower(received()), "proxy-") {
				t.Errorf("the upstream got %q", received())
			}
		})
	}
}

// CB-075: the token of the CONNECT is judged again for each request.
func TestTokenRevokedInTunnel(t *testing.T) {
	revoked := false
	r := newRig(t, func(o *Options, st *stages) {
		o.RequireToken = true
		o.Pipeline = &revoking{Doer: o.Pipeline, revoked: &revoked}
	})
	r.upstream("api.good.test:443", answering(okAnswer))
	inside := r.open("api.good.test:443", "Proxy-Authorization: Bearer "+goodToken)
	inside.send(openGood)
	inside.get("GET")
	revoked = true
	inside.send(openGood)
	inside.refused(407, runtime.CodeUnauthenticated)
}

// PC-027: a head that goes on coming, a byte at a time and without an end, has no
// more time than one that stops; whoever sends it holds nobody else up.
func TestTricklingHeads_PC027(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.Limits.HeadTimeout = time.Second })
	r.upstream("plain.test:80", answering(okAnswer))
	r.upstream("api.good.test:443", answering(okAnswer))
	const get = "GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n"
	kinds := map[string]func() (c *client, head string){
		"before CONNECT": func() (*client, string) { return r.dial(), "CONNECT api.good.test:443 HTTP/1.1\r\nHost: " },
		"a request line": func() (*client, string) { return r.dial(), "GET http://plain.test/" },
		"a later head": func() (*client, string) {
			c := r.dial()
			c.send(get + "\r\n")
			c.get("GET")
			return c, get + "X: "
		},
		"in a tunnel": func() (*client, string) {
			return r.open("api.good.test:443"), "GET /open HTTP/1.1\r\nHost: api.good.test\r\nX: "
		},
		"later in a tunnel": func() (*client, string) {
			c := r.open("api.good.test:443")
			c.send(openGood)
			c.get("GET")
			return c, "GET /open HTTP/1.1\r\nHost: api.good.test\r\nX: "
		},
		"a hello": func() (*client, string) {
			return r.connected("api.good.test:443"), "\x16\x03\x01\x40\x00\x01\x00\x3f\xfc"
		},
	}
	var wait sync.WaitGroup
	for name, kind := range kinds {
		for range 20 {
			c, head := kind()
			wait.Go(func() { // until it is closed
				for i := 0; ; i++ {
					b := []byte("x")
					if i < len(head) {
						b = []byte{head[i]}
					}
					if _, err := c.Write(b); err != nil {
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
			})
			wait.Go(func() {
				if text, err := io.ReadAll(c.br); isTimeout(err) {
					t.Errorf("%s: the connection goes on: %q %v", name, text, err)
				}
				_ = c.Close()
			})
		}
	}
	other := r.dial()
	other.send(get + "\r\n")
	if resp, _ := other.get("GET"); resp.StatusCode != 200 {
		t.Errorf("beside them: %s", resp.Status)
	}
	wait.Wait()
}

// PC-027: a head that trickles in is not waited for, first or later.
func TestSlowHead(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.Limits.HeadTimeout = 100 * time.Millisecond })
	r.upstream("plain.test:80", answering(okAnswer))
	first := r.dial()
	first.send("G")
	later := r.dial()
	later.send("GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n")
	later.get("GET")
	later.send("G")
	silent := r.dial()
	silent.send("CONNECT api.good.test:443 HTTP/1.1\r\nHost: api.good.test:443\r\n\r\n")
	silent.answer("CONNECT")
	hello := r.dial()
	hello.send("CONNECT api.good.test:443 HTTP/1.1\r\nHost: api.good.test:443\r\n\r\n\x16\x03\x01")
	hello.answer("CONNECT")
	for _, c := range []*client{first, later, silent, hello} {
		c.ended()
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

// Ten MiB up and down, opened and raw, byte for byte.
func TestLargeBodies(t *testing.T) {
	payload := bytes.Repeat([]byte("0123456789abcdef"), 10<<16)
	want := sha256.Sum256(payload)
	echo := func(c net.Conn, br *bufio.Reader) {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, _ := io.ReadAll(req.Body)
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(body))
		_, _ = c.Write(body)
	}
	r := newRig(t, nil)
	r.upstream("api.good.test:443", echo)
	r.upstream("plain.test:80", echo)
	raw := func() *client {
		c := r.dial()
		c.send("CONNECT plain.test:80 HTTP/1.1\r\nHost: plain.test:80\r\n\r\n")
		c.answer("CONNECT")
		return c
	}
	opened := func() *client { return r.open("api.good.test:443") }
	for host, open := range map[string]func() *client{"api.good.test": opened, "plain.test": raw} {
		c := open()
		go func() {
			_, _ = fmt.Fprintf(c, "POST /open HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", host, len(payload))
			_, _ = c.Write(payload)
		}()
		if resp, body := c.get("POST"); sha256.Sum256([]byte(body)) != want {
			t.Errorf("%s: %s, %d bytes came back", host, resp.Status, len(body))
		}
	}
}

// The client's side offers what we can serve.
func TestHandshake(t *testing.T) {
	r := newRig(t, nil)
	inside := r.open("api.good.test:443")
	state := inside.Conn.(*tls.Conn).ConnectionState()
	if state.Version != tls.VersionTLS13 || state.CurveID != tls.X25519 {
		t.Errorf("version %x, curve %v", state.Version, state.CurveID)
	}
}
