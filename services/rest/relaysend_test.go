package rest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// warm opens n connections that are kept: the upstream answers none of n
// requests before it has them all.
func warm(t *testing.T, r *rig, n int) {
	t.Helper()
	var wait sync.WaitGroup
	for range n {
		wait.Go(func() { r.must(t, r.call("GET", fmt.Sprintf("/together-%d", n))) })
	}
	wait.Wait()
	equal(t, "connections", r.Connections(), n)
}

// together answers once n requests have come.
func together(n int) servicestest.Behave {
	var all sync.WaitGroup
	all.Add(n)
	return func(c *servicestest.Conn, _ *servicestest.Request) bool {
		all.Done()
		all.Wait()
		return c.Send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}
}

// However many connections are kept, a request goes out once more at most, on a
// fresh one; and not at all when it changes something, or an answer has begun.
func TestOneRepetitionAtMost(t *testing.T) {
	hangUp := func(said string) servicestest.Behave {
		return func(c *servicestest.Conn, q *servicestest.Request) bool {
			_ = c.ReadBody(q)
			if said == "" || !c.Send(said) {
				return false
			}
			return false
		}
	}
	for _, c := range []struct {
		name, method, path, body string
		times                    int
	}{
		{"GET", "GET", "/hang-up", "", 2}, {"HEAD", "HEAD", "/hang-up", "", 2},
		{"DELETE", "DELETE", "/hang-up", "", 1}, {"POST without a body", "POST", "/hang-up", "", 1},
		{"POST", "POST", "/hang-up", "once", 1}, {"GET with a body", "GET", "/hang-up", "once", 1},
		{"after a byte", "GET", "/byte", "", 1}, {"after a 103", "GET", "/early", "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := unwatched(t, servicestest.Options{Routes: map[string]servicestest.Behave{
				"/together-3": together(3), "/hang-up": hangUp(""), "/byte": hangUp("H"), "/early": hangUp("HTTP/1.1 103 Early\r\n\r\n"),
			}})
			warm(t, r, 3)
			call := r.call(c.method, c.path)
			if c.body != "" {
				body(call, strings.NewReader(c.body), int64(len(c.body)))
			}
			r.refused(t, call, runtime.CodeUpstream, runtime.ReasonUpstreamUnavailable)
			asked := slices.DeleteFunc(r.Requests(), func(q servicestest.Request) bool { return q.Target != c.path })
			equal(t, "requests", len(asked), c.times)
			if c.times == 2 && (asked[0].Conn > 3 || asked[1].Conn <= 3) {
				t.Errorf("on connections %d and %d: the second is not a fresh one", asked[0].Conn, asked[1].Conn)
			}
		})
	}
}

// The same for a body in memory that the socket does not take at once: the
// answer is not waited for until the body has left.
func TestAnEarlyAnswerToALargeBodyInMemory(t *testing.T) {
	answered := make(chan struct{})
	r := unwatched(t, servicestest.Options{Routes: map[string]servicestest.Behave{
		"/refuse": func(c *servicestest.Conn, _ *servicestest.Request) bool {
			c.Send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
			<-answered // and the connection stays, unread
			return false
		},
	}})
	call := body(r.call("POST", "/refuse"), bytes.NewReader(make([]byte, 32<<20)), 32<<20)
	if _, err := call.Request.Raw.Buffer(64 << 20); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // the idle timeout is minutes
	defer cancel()
	out := &runtimetest.Responder{}
	_, err := r.backend.Execute(ctx, call, out)
	close(answered)
	if err != nil || out.Answer().Status != 413 {
		t.Errorf("%d, %v", out.Answer().Status, err)
	}
}

// An upstream that takes no more of a request for too long is no dead connection, and the
// setting that it was too long for is named.
func TestAnUpstreamThatTakesNoMore(t *testing.T) {
	hurry := func(o *rest.Options) { o.IdleTimeout = 200 * time.Millisecond }
	done := make(chan struct{})
	defer close(done)
	deaf := routes("/deaf", func(*servicestest.Conn, *servicestest.Request) bool { <-done; return false })
	shut := framed(func(*frames, *http2.MetaHeadersFrame) {}) // no window is ever opened
	for name, r := range map[string]*rig{
		"HTTP/1.1": newRig(t, deaf, hurry),
		"relayed":  unwatched(t, deaf, hurry),
		"in turns": turning(t, shut, hurry),
		"shared":   newRig(t, shut, hurry),
		"held":     newRig(t, shut, hurry), // in memory
	} {
		for _, method := range []string{"POST", "PUT"} {
			call := body(r.call(method, "/deaf"), bytes.NewReader(make([]byte, 32<<20)), 32<<20)
			if name == "held" {
				_, _ = call.Request.Raw.Buffer(32 << 20) // of memory
			}
			e := r.refused(t, call, runtime.CodeTimeout, "")
			if !strings.Contains(e.Msg, "took nothing more") || !strings.Contains(e.Hint, "upstream.idle_timeout") {
				t.Errorf("%s, %s: %q, %q", name, method, e.Msg, e.Hint)
			}
		}
	}
}

// An answer that comes during an upload ends the upload; the connection, on
// which half a request stands, is not kept.
func TestAnEarlyAnswerEndsTheUpload(t *testing.T) {
	r := unwatched(t, servicestest.Options{})
	src, feed := io.Pipe()
	written := make(chan error, 1)
	go func() {
		_, err := io.WriteString(feed, "half")
		for err == nil {
			_, err = io.WriteString(feed, "more")
		}
		written <- err
	}()
	answer, result := r.must(t, body(r.call("POST", "/refuse-early"), src, -1))
	equal(t, "status", answer.Status, 413)
	equal(t, "recorded", result.Status, 413)
	_ = src.Close() // as a surface does at the end of the request
	if <-written == nil {
		t.Error("the upload goes on")
	}
	r.must(t, r.call("GET", "/"))
	equal(t, "connections", r.Connections(), 2)
}

// A field that HTTP does not allow is found before anything is dialled; no
// credential is recorded as used.
func TestWhatCannotBeWrittenIsNotDialled(t *testing.T) {
	for _, field := range []string{"X Y: 1", "X: a\x00b", "X: a\r\nY: b"} {
		r := unwatched(t, servicestest.Options{})
		_, result, err := r.do(t, r.call("GET", "/", field))
		equal(t, field, runtime.CodeOf(err), runtime.CodeInvalidInput)
		equal(t, "used", result.Used, "")
		equal(t, "connections", r.Connections(), 0)
	}
}
