package runtime_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

const mebi = 1 << 20

// named identifies callers by their token's text.
func named(c runtime.Caller) (runtime.Principal, error) {
	who := runtimetest.Principal()
	who.ID = c.Token.Reveal()
	return who, nil
}

// posted is a request of a caller with a body.
func posted(who string, body io.Reader, length int64) *runtime.Request {
	return &runtime.Request{
		Caller: runtime.Caller{Token: runtime.NewSecret(who)}, Raw: &runtime.Raw{Body: body, ContentLength: length},
	}
}

// full demands the refusal of one body too many.
func full(t *testing.T, err error) {
	t.Helper()
	e := runtime.AsError(err)
	if e == nil || e.Code != runtime.CodeRateLimited || e.Reason != runtime.ReasonTooManyPending ||
		e.Status() != http.StatusTooManyRequests || e.RetryAfter == 0 || e.Hint == "" {
		t.Errorf("got %v, want a refusal of the body", err)
	}
}

// What one caller's waiting requests hold is bounded while they wait, and given
// back when they end. Other callers, and small bodies, are not touched by it.
func TestHeldBodiesOfOneCallerAreBounded(t *testing.T) {
	waiting, decided := make(chan struct{}), make(chan struct{})
	s := &runtimetest.Stages{OnDecide: ask, OnIdentify: named}
	s.OnAwait = func(_ context.Context, call *runtime.Call, _ runtime.Verdict) (runtime.Ticket, error) {
		if call.Principal.ID == "greedy" {
			waiting <- struct{}{}
			<-decided
		}
		return runtime.Ticket{ID: "apr_1"}, nil
	}
	p := pipeline(t, s)
	large := bytes.Repeat([]byte("b"), 16*mebi)
	done := make(chan error)
	do := func(who string, length int64) error {
		return p.Do(t.Context(), posted(who, bytes.NewReader(large), length), &runtimetest.Responder{})
	}
	for i := range 4 {
		go func() { done <- do("greedy", []int64{16 * mebi, -1}[i%2]) }()
		<-waiting
	}
	full(t, do("greedy", 16*mebi))
	full(t, do("greedy", -1))
	full(t, p.Do(t.Context(), posted("greedy", bytes.NewReader(large[:1]), 1), &runtimetest.Responder{}))
	if err := do("modest", -1); err != nil {
		t.Errorf("another caller: %v", err)
	}
	close(decided)
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	go func() { done <- do("greedy", 16*mebi) }()
	<-waiting
	if err := <-done; err != nil {
		t.Errorf("after they were decided: %v", err)
	}
}

// Room is taken before the first byte is read, so that bodies under way count;
// one that breaks off gives its room back.
func TestHeldBodiesOfAllCallersAreBounded(t *testing.T) {
	p := pipeline(t, &runtimetest.Stages{OnDecide: ask, OnIdentify: named})
	done := make(chan error)
	var bodies []*io.PipeWriter
	for i := range 16 {
		body, w := io.Pipe()
		bodies = append(bodies, w)
		go func() {
			done <- p.Do(t.Context(), posted(fmt.Sprint("caller", i/4), body, -1), &runtimetest.Responder{})
		}()
		if _, err := w.Write([]byte("begun")); err != nil {
			t.Fatal(err)
		}
	}
	late := func() error {
		return p.Do(t.Context(), posted("late", bytes.NewReader([]byte("b")), 1), &runtimetest.Responder{})
	}
	full(t, late())
	_ = bodies[0].CloseWithError(io.ErrUnexpectedEOF)
	if err := <-done; runtime.CodeOf(err) != runtime.CodeCanceled {
		t.Errorf("a body that broke off: %v", err)
	}
	if err := late(); err != nil {
		t.Errorf("with room again: %v", err)
	}
	for _, w := range bodies[1:] {
		_ = w.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// What a body took that came without its length is its own bytes once it is there, however
// many wait; and one that is refused after it was read takes nothing any more.
func TestABodyTakesNoMoreThanItIs(t *testing.T) {
	const many = 10
	waiting, decided := make(chan struct{}), make(chan struct{})
	s := &runtimetest.Stages{OnDecide: ask, OnIdentify: named}
	s.OnAwait = func(context.Context, *runtime.Call, runtime.Verdict) (runtime.Ticket, error) {
		waiting <- struct{}{}
		<-decided
		return runtime.Ticket{ID: "apr_1"}, nil
	}
	p := pipeline(t, s)
	for range many {
		req := posted("one", bytes.NewReader([]byte("short")), -1)
		req.Raw.Trailer = func() http.Header { return http.Header{"Late": {"field"}} }
		if err := p.Do(t.Context(), req, &runtimetest.Responder{}); runtime.CodeOf(err) != runtime.CodeInvalidInput {
			t.Fatal(err)
		}
	}
	done := make(chan error)
	for range many {
		go func() {
			done <- p.Do(t.Context(), posted("one", bytes.NewReader([]byte("short")), -1), &runtimetest.Responder{})
		}()
		select {
		case <-waiting:
		case err := <-done:
			t.Fatal(err)
		}
	}
	close(decided)
	for range many {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
