package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// One principal has half of the places for large answers. What finds none waits, in order,
// and one whose principal has its share is in nobody's way.
func TestLargeAnswersWaitForRoom(t *testing.T) {
	l := &newServer(Options{}).large
	l.patient = 0 // who has to wait is told so at once
	of := func(id string) *allowance {
		t.Helper()
		a, err := l.allow(runtime.Principal{ID: id, Tenant: "default"})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	full := func(a *allowance) bool {
		t.Helper()
		err := a.take(t.Context())
		if err != nil && (runtime.CodeOf(err) != runtime.CodeUpstream || runtime.AsError(err).Reason != runtime.ReasonBodyTooLarge) {
			t.Error(err)
		}
		return err != nil
	}
	var theirs []*allowance
	for range largeEach {
		a := of("greedy")
		theirs = append(theirs, a)
		for range 2 { // who has a place keeps it
			if full(a) {
				t.Fatal("there is no room")
			}
		}
	}
	last := of("greedy")
	if !full(last) {
		t.Error("one principal has more than its share")
	}
	for range largeAll - largeEach {
		if full(of("other")) {
			t.Error("another finds no room")
		}
	}
	third := of("third")
	if !full(third) {
		t.Error("there are too many")
	}
	theirs[0].give()
	theirs[0].give()
	if full(third) || !full(last) {
		t.Error("a place that is given back is not the next one's")
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := last.take(gone); !errors.Is(err, context.Canceled) && runtime.CodeOf(err) != runtime.CodeUpstream {
		t.Error(err)
	}
}

// An answer that comes on and on, in pieces or pages, does not keep its place for that.
func TestALargeAnswerComesInTime(t *testing.T) {
	now := time.Unix(1e9, 0)
	l := &newServer(Options{Clock: func() time.Time { return now }}).large
	a, err := l.allow(runtime.Principal{ID: "a", Tenant: "default"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.give()
	for range 2 { // a place is taken for each piece again
		if err := a.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		now = now.Add(largeLasts)
	}
	if err := a.take(t.Context()); runtime.CodeOf(err) != runtime.CodeTimeout {
		t.Errorf("it comes still: %v", err)
	}
}

// While too many answers of one principal wait, nothing more of it is sent.
func TestTooManyThatWaitAreRefusedBefore(t *testing.T) {
	l := &newServer(Options{}).large
	who := runtime.Principal{ID: "a", Tenant: "default"}
	var all []*allowance
	errs := make(chan error, largeEach+largeQueue)
	for range largeEach + largeQueue {
		a, err := l.allow(who)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
		go func() { errs <- a.take(t.Context()) }()
	}
	for range largeEach {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	waiting := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.waiting)
	}
	for waiting() < largeQueue {
		goruntime.Gosched()
	}
	undone := (*Undone)(nil)
	if _, err := l.allow(who); runtime.CodeOf(err) != runtime.CodeRateLimited || !errors.As(err, &undone) {
		t.Error(err)
	}
	if _, err := l.allow(runtime.Principal{ID: "b", Tenant: "default"}); err != nil {
		t.Errorf("another: %v", err)
	}
	l.mu.Lock()
	l.by[all[0].owner] = -len(all) // let all in
	l.all = -len(all)
	l.serve()
	l.mu.Unlock()
	for range largeQueue {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// What scripts answer has its place too, until it is read.
func TestLargeAnswersOfScriptsWaitForRoom(t *testing.T) {
	client, base := serve(t, true, Options{Execute: func(_ context.Context, s Script) (Answer, error) {
		if s.Code == "small" {
			return Answer{Body: s.Code}, nil
		}
		return Answer{ID: "exe_1", Body: strings.Repeat("x", 16<<20)}, nil // more than the kernel keeps for both ends
	}}, func(s *Server) { s.large.patient, s.patience = 0, time.Hour }) // who has to wait is told so at once, who does not read keeps its place
	begin := func(path, code, who string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", base+path, strings.NewReader(`{"code":"`+code+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+who)
		r.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	for range largeEach {
		answer := begin("/v1/exec", "large", "greedy")
		defer func() { _ = answer.Body.Close() }()
		if answer.StatusCode != 200 {
			t.Fatal(answer.Status)
		}
	}
	for _, one := range []struct {
		code, who string
		want      int
	}{{"large", "greedy", 413}, {"small", "greedy", 200}, {"large", "other", 200}} {
		answer := begin("/v1/exec", one.code, one.who)
		if answer.StatusCode != one.want {
			t.Errorf("%s of %s: %s", one.code, one.who, answer.Status)
		}
		if answer.StatusCode == 413 { // the result is kept: its caller must learn where
			text, err := io.ReadAll(answer.Body)
			if err != nil || !strings.Contains(string(text), "GET /v1/exec/exe_1") {
				t.Errorf("%s %v", text, err)
			}
		}
		_ = answer.Body.Close()
	}
}

// What a script answered at length is not told again for its Idempotency-Key, and it is kept
// all the same: whoever asks again must learn where, as who was told nothing of it does.
func TestALongAnswerOfAScriptIsNamedToWhoAsksAgain(t *testing.T) {
	runs := 0
	client, base := open(t, true, Options{Execute: func(_ context.Context, s Script) (Answer, error) {
		runs++
		return Answer{ID: "exe_1", Body: s.Code + strings.Repeat("x", keptBody)}, nil
	}})
	do := func(code, key string) (int, string) {
		return ask(t, client, "POST", base+"/v1/exec", `{"code":"`+code+`"}`, "Authorization", "Bearer a", "Idempotency-Key", key)
	}
	if status, text := do("long", "k1"); status != http.StatusOK {
		t.Fatalf("%d %.200s", status, text)
	}
	status, text := do("long", "k1")
	if status != http.StatusUnprocessableEntity || !strings.Contains(text, "GET /v1/exec/exe_1") || !strings.Contains(text, "kimbap exec --resume exe_1") {
		t.Errorf("%d %.300s", status, text)
	}
	if runs != 1 {
		t.Errorf("it ran %d times", runs)
	}
}
