package rest_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// An upstream that takes too long is not a dead connection: it may be at work.
func TestWhatTakesTooLongIsNotRepeated(t *testing.T) {
	r := unwatched(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/together-2": together(2)}},
		func(o *rest.Options) { o.HeaderTimeout = 2 * time.Second })
	warm(t, r, 2)
	r.refused(t, r.call("GET", "/silent"), runtime.CodeTimeout, "")
	equal(t, "requests", len(r.Requests()), 3)
	equal(t, "connections", r.Connections(), 2)
}

// noting dials connections that tell of their read deadlines.
type noting struct{ moved chan time.Time }

func (n *noting) Dial(ctx context.Context, authority string, _, _ bool) (net.Conn, string, bool, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", authority)
	if err != nil {
		return nil, "", false, err
	}
	return &noted{conn, n}, authority, true, nil
}

type noted struct {
	net.Conn
	of *noting
}

func (n *noted) SetReadDeadline(by time.Time) error {
	n.of.moved <- by
	return n.Conn.SetReadDeadline(by)
}

// until waits for a deadline that is more than least ahead, or for none when
// least is 0.
func (n *noting) until(t testing.TB, least time.Duration) {
	t.Helper()
	for late := time.After(10 * time.Second); ; {
		select {
		case by := <-n.moved:
			if least == 0 && by.IsZero() || least > 0 && by.After(time.Now().Add(least)) {
				return
			}
		case <-late:
			t.Error("the deadline was not moved")
			return
		}
	}
}

// The time for an answer begins when the request has left; an upload takes as
// long as it moves.
func TestAnUploadDoesNotUseUpTheTimeOfTheAnswer(t *testing.T) {
	deadlines := &noting{moved: make(chan time.Time, 100)}
	src, feed := io.Pipe()
	r := unwatched(t, servicestest.Options{Cleartext: true, Routes: map[string]servicestest.Behave{"/up": func(c *servicestest.Conn, q *servicestest.Request) bool {
		if c.ReadBody(q) != nil {
			return false
		}
		deadlines.until(t, 59*time.Minute) // that of the head
		if !c.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n") {
			return false
		}
		deadlines.until(t, 4*time.Hour) // that of the body
		return c.Send("ok")
	}}}, func(o *rest.Options) {
		o.Dialer, o.HeaderTimeout, o.IdleTimeout = deadlines, time.Hour, 5*time.Hour
	})
	go func() {
		deadlines.until(t, 0)
		_, _ = io.WriteString(feed, "some bytes")
		_ = feed.Close()
	}()
	answer, _ := r.must(t, body(r.call("POST", "/up"), src, -1))
	equal(t, "answer", answer.Body, "ok")
}

// Who sets no time for an answer gets none: it may come after any time, as it would without us.
func TestAnAnswerMayBeginAtAnyTime(t *testing.T) {
	deadlines := &noting{moved: make(chan time.Time, 100)}
	r := unwatched(t, servicestest.Options{Cleartext: true, Routes: map[string]servicestest.Behave{"/think": func(c *servicestest.Conn, _ *servicestest.Request) bool {
		deadlines.until(t, 365*24*time.Hour)
		return c.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}}}, func(o *rest.Options) { o.Dialer = deadlines })
	answer, _ := r.must(t, r.call("GET", "/think"))
	equal(t, "answer", answer.Body, "ok")
}

// Each piece of an upload that leaves after the head of the answer has come gives the rest of
// that its time anew: the upstream may wait for the whole body.
func TestAnAnswerThatBeganEarlyWaitsForTheUpload(t *testing.T) {
	deadlines := &noting{moved: make(chan time.Time, 100)}
	src, feed := io.Pipe()
	r := unwatched(t, servicestest.Options{Cleartext: true, Routes: map[string]servicestest.Behave{"/up": func(c *servicestest.Conn, q *servicestest.Request) bool {
		return c.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n") && c.ReadBody(q) == nil && c.Send("ok")
	}}}, func(o *rest.Options) {
		o.Dialer, o.HeaderTimeout, o.IdleTimeout = deadlines, time.Hour, 5*time.Hour
	})
	go func() {
		defer func() { _ = feed.Close() }()
		deadlines.until(t, 4*time.Hour) // the head has come, and its body is waited for
		for range 3 {
			if _, err := io.WriteString(feed, "piece"); err != nil {
				return
			}
			deadlines.until(t, 4*time.Hour)
		}
	}()
	answer, _ := r.must(t, body(r.call("POST", "/up"), src, -1))
	equal(t, "answer", answer.Body, "ok")
}

// In the middle of a line between two chunks it is the time of the body that
// runs.
func TestChunksHaveTheTimeOfABody(t *testing.T) {
	deadlines := &noting{moved: make(chan time.Time, 100)}
	r := unwatched(t, servicestest.Options{Cleartext: true, Routes: map[string]servicestest.Behave{"/cut": func(c *servicestest.Conn, _ *servicestest.Request) bool {
		if !c.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "2") {
			return false
		}
		deadlines.until(t, 4*time.Hour)
		return c.Send("\r\nok\r\n0\r\n\r\n")
	}}}, func(o *rest.Options) {
		o.Dialer, o.HeaderTimeout, o.IdleTimeout = deadlines, time.Hour, 5*time.Hour
	})
	answer, _ := r.must(t, r.call("GET", "/cut"))
	equal(t, "answer", answer.Body, "ok")
}
