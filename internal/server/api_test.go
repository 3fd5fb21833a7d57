package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/kimbap-run/kimbap/runtime"
)

// nobody does nothing, for a server whose pages are only counted.
type nobody struct {
	Agent
	Operator
	Lender
}

// A server that wants a token of everybody says so, to generators of clients and to whoever looks
// for pages that are open; on a socket it is the kernel that says who asks.
func TestTheDescriptionSaysWhoNeedsAToken(t *testing.T) {
	for want, tcp := range map[string]bool{`[{"token":[]}]`: true, `[{},{"token":[]}]`: false} {
		client, base := serve(t, tcp, Options{Agent: nobody{}}, func(*Server) {})
		var d struct {
			Security json.RawMessage
			Paths    map[string]map[string]struct{ Security *[]any }
		}
		if _, text := ask(t, client, "GET", base+"/v1/openapi.json", ""); json.Unmarshal([]byte(text), &d) != nil || string(d.Security) != want {
			t.Errorf("by TCP: %v: %s", tcp, d.Security)
		}
		for path, methods := range d.Paths {
			for method, o := range methods {
				status, _ := ask(t, client, strings.ToUpper(method), base+strings.NewReplacer("{", "", "}", "").Replace(path), "")
				if open := o.Security != nil && len(*o.Security) == 0; tcp && open == (status == 401) {
					t.Errorf("%s %s is open: %v, and answered %d", method, path, open, status)
				}
			}
		}
	}
}

// Each page is described, and nothing is described that is not there: on an API, on
// a daemon, and on both together.
func TestEveryPageIsDescribed(t *testing.T) {
	var d struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal(openapi, &d); err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	metrics, err := NewMetrics(Gauges{AuditLag: func() float64 { return 0 }, VaultLocked: func() bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{
		{Agent: nobody{}, Operator: nobody{}, Lender: nobody{}, Metrics: metrics, RequireToken: true}, {Agent: nobody{}, Shutdown: func() {}},
	} {
		fill(&o)
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		var shown struct{ Paths map[string]map[string]any }
		if err := json.Unmarshal(s.described, &shown); err != nil {
			t.Fatal(err)
		}
		count := 0
		_ = chi.Walk(s.router, func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			count++
			there[path+" "+method] = true
			if d.Paths[path][strings.ToLower(method)] == nil {
				t.Errorf("%s %s is not described", method, path)
			}
			return nil
		})
		for _, methods := range shown.Paths {
			count -= len(methods)
		}
		if count != 0 {
			t.Errorf("%d pages are not in the description that is served", count)
		}
	}
	for path, methods := range d.Paths {
		for method := range methods {
			if !there[path+" "+strings.ToUpper(method)] {
				t.Errorf("%s %s is described and not there", method, path)
			}
		}
	}
}

func TestADoormanTellsStrangersToWaitAndNobodyElse(t *testing.T) {
	now := time.Unix(1000, 0)
	d := doorman{clock: func() time.Time { return now }, left: strangers}
	why := &runtime.Error{Code: runtime.CodeUnauthenticated}
	for range strangers {
		if err := d.refuse(why); runtime.CodeOf(err) != runtime.CodeUnauthenticated {
			t.Fatal(err)
		}
	}
	if err := d.refuse(why); runtime.CodeOf(err) != runtime.CodeRateLimited {
		t.Error(err)
	}
	now = now.Add(time.Second)
	if err := d.refuse(why); runtime.CodeOf(err) != runtime.CodeUnauthenticated {
		t.Error(err)
	}
}

func TestKeysAreBoundedAndForgotten(t *testing.T) {
	now := time.Unix(1000, 0)
	o := once{clock: func() time.Time { return now }, kept: map[keptKey]*kept{}, count: map[string]int{}}
	take := func(key string) (*kept, bool) {
		k, first, err := o.take(keptKey{"a", key}, [32]byte{1})
		if err != nil {
			t.Fatal(err)
		}
		return k, first
	}
	for i := range keptEach * 2 {
		k, first := take(strings.Repeat("k", i+1))
		if !first {
			t.Fatal("not the first")
		}
		close(k.done)
		now = now.Add(time.Second)
	}
	if len(o.kept) > keptEach || o.count["a"] != len(o.kept) {
		t.Errorf("%d keys are kept, %d counted", len(o.kept), o.count["a"])
	}
	if _, first := take(strings.Repeat("k", keptEach*2)); first {
		t.Error("the last one was forgotten")
	}
	now = now.Add(keptFor)
	if _, first := take(strings.Repeat("k", keptEach*2)); !first {
		t.Error("an old one is still told")
	}
}

// However many keys the tokens of one tenant use, those of others are kept: what they
// send again is not done again.
func TestKeysOfOthersAreNotPushedOut(t *testing.T) {
	now := time.Unix(1000, 0)
	o := once{clock: func() time.Time { return now }, kept: map[keptKey]*kept{}, count: map[string]int{}}
	take := func(owner string, i int) bool {
		k, first, err := o.take(keptKey{owner, strconv.Itoa(i)}, [32]byte{1})
		if err != nil {
			t.Fatal(err)
		}
		if first {
			close(k.done)
		}
		now = now.Add(time.Millisecond)
		return first
	}
	take("quiet/token:a", 0)
	for token := range 2 * keptAll / keptEach {
		for i := range keptEach {
			take("loud/token:"+strconv.Itoa(token), i)
		}
	}
	for i := range keptAll { // of many tokens, with one key each
		take("loud/token:one-"+strconv.Itoa(i), 0)
	}
	if len(o.kept) > keptAll {
		t.Errorf("%d keys are kept", len(o.kept))
	}
	if take("quiet/token:a", 0) {
		t.Error("a key of another tenant was forgotten")
	}
}

// Nor does a tenant push them out whose own are not answered yet, as while a person is
// waited for.
func TestKeysOfOthersAreNotPushedOutByThoseUnderWay(t *testing.T) {
	o := once{clock: time.Now, kept: map[keptKey]*kept{}, count: map[string]int{}}
	quiet, _, err := o.take(keptKey{"quiet/token:a", "0"}, [32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	close(quiet.done)
	refused := 0
	for token := range keptAll/keptEach + 1 {
		for i := range keptEach {
			if _, _, err := o.take(keptKey{"loud/token:" + strconv.Itoa(token), strconv.Itoa(i)}, [32]byte{1}); err != nil {
				refused++
			}
		}
	}
	if _, first, err := o.take(keptKey{"quiet/token:a", "0"}, [32]byte{1}); first || err != nil {
		t.Error("a key of another tenant was forgotten: ", err)
	}
	if refused != keptEach+1 {
		t.Errorf("%d were refused", refused)
	}
	if _, _, err := o.take(keptKey{"quiet/token:a", "1"}, [32]byte{1}); err != nil || len(o.kept) > keptAll {
		t.Error("of its own it pushes out none either: ", err)
	}
}

// Who leaves while it waits for an answer is no fault of ours.
func TestWhoLeavesWhileItWaitsIsNoFault(t *testing.T) {
	left, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequestWithContext(left, "POST", "/", nil)
	err := (&kept{done: make(chan struct{})}).again(httptest.NewRecorder(), r)
	if runtime.CodeOf(err) != runtime.CodeCanceled || !errors.Is(err, context.Canceled) {
		t.Errorf("under a key: %v", err)
	}
	l := &newServer(Options{}).large
	l.all = largeAll
	a, err := l.allow(runtime.Principal{ID: "a", Tenant: "default"})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.take(left); runtime.CodeOf(err) != runtime.CodeCanceled || !errors.Is(err, context.Canceled) || len(l.waiting) != 0 {
		t.Errorf("for room: %v", err)
	}
}
