package rest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// A head that came with nothing but frames of another kind goes out, as the body may be
// long in coming.
func TestAHeadIsNotHeldForAPing(t *testing.T) {
	out := &hurried{Responder: &runtimetest.Responder{}, signal: newSignal()}
	r := turning(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
		f.together("", func(f *frames) {
			f.head(h.StreamID, false, ":status 200")
			_ = f.WritePing(false, [8]byte{1})
		})
		if out.wait() {
			_ = f.WriteData(h.StreamID, true, []byte("event"))
		}
		_ = f.WriteRSTStream(h.StreamID, http2.ErrCodeInternal)
	}))
	if _, err := r.backend.Execute(t.Context(), r.call("GET", "/"), out); err != nil {
		t.Fatal(err)
	}
	equal(t, "the body", out.Answer().Body, "event")
}

// hurried is a responder that may hold a head back.
type hurried struct {
	*runtimetest.Responder
	*signal
	ready bool
}

func (h *hurried) Like(form runtime.Form) {
	if h.ready = form.Ready; !h.ready {
		h.give()
	}
}
func (h *hurried) Hurry() { h.give() }

// Each event is passed on before the next one comes.
func TestEventsArePassedOnAsTheyCome(t *testing.T) {
	const events = 5
	passed := make(chan string, events)
	r := turning(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
		if h.PseudoValue("path") != "/events" {
			f.head(h.StreamID, true, ":status 200")
			return
		}
		f.head(h.StreamID, false, ":status 200", "content-type text/event-stream")
		for i := range events {
			event := fmt.Sprintf("data: %d\n\n", i)
			_ = f.WriteData(h.StreamID, false, []byte(event))
			select {
			case got := <-passed:
				if got != event {
					t.Errorf("got %q, want %q", got, event)
				}
			case <-time.After(10 * time.Second):
				_ = f.Conn.Close()
				return
			}
		}
		_ = f.WriteData(h.StreamID, true, nil)
	}))
	out := &relayer{Responder: &runtimetest.Responder{}, passed: passed}
	if _, err := r.backend.Execute(t.Context(), pass(r.call("GET", "/events")), out); err != nil {
		t.Fatal(err)
	}
	r.must(t, pass(r.call("GET", "/")))
	equal(t, "connections", r.Connections(), 1)
}

// relayer says what was written.
type relayer struct {
	*runtimetest.Responder
	passed chan string
}

func (w *relayer) Write(p []byte) (int, error) {
	w.passed <- string(p)
	return w.Responder.Write(p)
}

// A caller that leaves closes the connection, and the next call has another.
func TestACallerThatLeavesTakesItsTurnAlong(t *testing.T) {
	for _, path := range []string{"/silent", "/part", "/upload"} {
		t.Run(path, func(t *testing.T) {
			came, gone := newSignal(), newSignal()
			r := turning(t, handled(0, func(w http.ResponseWriter, q *http.Request) {
				if q.URL.Path == "/" {
					return
				}
				if q.URL.Path == "/part" {
					_, _ = io.WriteString(w, "part")
					_ = http.NewResponseController(w).Flush()
				}
				came.give()
				<-q.Context().Done()
				gone.give()
			}))
			r.must(t, r.call("GET", "/"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			call := r.call("POST", path)
			reader, writer := io.Pipe()
			defer func() { _ = writer.Close() }()
			if path == "/upload" {
				body(call, reader, -1)
			}
			done := make(chan error, 1)
			go func() { _, err := r.backend.Execute(ctx, call, &runtimetest.Responder{}); done <- err }()
			if !came.wait() {
				t.Fatal("the request has not come")
			}
			cancel()
			if e := runtime.AsError(<-done); e == nil || e.Code != runtime.CodeCanceled {
				t.Errorf("the end: %v", e)
			}
			if !gone.wait() {
				t.Fatal("the upstream goes on")
			}
			r.must(t, r.call("GET", "/"))
			equal(t, "connections", r.Connections(), 2)
		})
	}
}
