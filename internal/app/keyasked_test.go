package app_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// hungry is a kimbap whose key service hangs as soon as it is asked again.
func hungry(t *testing.T, clock func() time.Time) (k *apptest.Kimbap, asked <-chan struct{}, given chan<- struct{}) {
	t.Helper()
	k = apptest.New(t, apptest.Options{Resolve: []string{otherHost}, Clock: clock, Prepare: func(k *apptest.Kimbap) {
		asked, given = app.HangKeys(k.App)
	}})
	return k, asked, given
}

// event waits for one thing that happens.
func event(t *testing.T, of <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-of:
	case <-time.After(soon):
		t.Fatal("missed: " + what)
	}
}

// revokes has a token revoked that is in use, and waits until it is refused.
func revokes(t *testing.T, k *apptest.Kimbap, person *app.App) {
	t.Helper()
	token, info, err := person.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Scopes: []string{"*"}, TTL: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	status := func() int {
		_, a := k.Connect(t, otherHost, "Proxy-Authorization: Bearer "+token.Reveal())
		return a.Status
	}
	if got := status(); got != http.StatusOK {
		t.Fatalf("with the token: %d", got)
	}
	if revoked, err := person.RevokeToken(t.Context(), info.ID); err != nil || !revoked {
		t.Fatal(revoked, err)
	}
	apptest.Within(t, soon, "the refusal of the revoked token", func() bool { return status() == http.StatusProxyAuthRequired })
}

// A key service that hangs when a pause ends delays no revocation and no lock, and a key that was
// asked for before a lock opens nothing after it.
func TestAKeyServiceThatHangsHoldsNothingUp(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	k, asked, given := hungry(t, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	person := k.Open(t, "")
	pause := func() {
		t.Helper()
		if _, err := person.LockVault(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	pause()
	apptest.Within(t, soon, "the pause", func() bool { return k.App.Locked() != nil })
	ahead.Store(int64(time.Hour))
	event(t, asked, "the question for the key")
	revokes(t, k, person)
	pause()
	event(t, asked, "the end of the question")
	select {
	case given <- struct{}{}:
		t.Error("the key from before the lock is still waited for")
	default:
	}
	if why := k.App.Locked(); why == nil || !k.App.Vault().Locked() {
		t.Error("it is open")
	}
	ahead.Store(int64(2 * time.Hour))
	event(t, asked, "the next question for the key")
	given <- struct{}{}
	apptest.Within(t, soon, "the open vault", func() bool { return k.App.Locked() == nil })
	if a := k.Do(t, "GET https://"+apptest.Host+"/notes/1", ""); a.Status != http.StatusOK {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
}

// Nor does a sink that hangs while the watch makes the token of a run good for longer.
func TestAProlongingWaitsForNoSink(t *testing.T) {
	t.Parallel()
	hangs, ends := make(chan struct{}, 100), make(chan struct{})
	var slow atomic.Bool
	place := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if slow.Load() {
			hangs <- struct{}{}
			<-ends
		}
	}))
	t.Cleanup(place.Close)
	t.Cleanup(func() { close(ends) })
	k := apptest.New(t, apptest.Options{Config: "audit: {sinks: [{type: webhook, url: \"" + place.URL + "\", mode: required}]}\n"})
	_, info, err := k.App.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Run: "run_1", Scopes: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	slow.Store(true)
	go func() { _ = k.App.Trail().Event(context.Background(), record.Event{Kind: "test.hangs"}) }()
	event(t, hangs, "the write that hangs")
	done := make(chan error, 1)
	go func() { done <- app.ProlongAtALook(k.App, t.Context(), info.ID, 2*time.Hour) }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(soon):
		t.Error("it waits for the sink")
	}
}

// Nor does a key service that hangs when the master key was rotated, with the vault open.
func TestARotationWithAKeyServiceThatHangsHoldsNothingUp(t *testing.T) {
	t.Parallel()
	k, asked, _ := hungry(t, nil)
	person := k.Open(t, "")
	if _, err := person.RotateMasterKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	event(t, asked, "the question for the key")
	if _, err := person.LockVault(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	apptest.Within(t, soon, "the lock", func() bool { why := k.App.Locked(); return why != nil && why.Reason == runtime.ReasonLocked })
	event(t, asked, "the end of the question")
}
