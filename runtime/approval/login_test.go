package approval_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// loggedIn is a proxied request to a service with a key in a field of its own, with these fields.
func loggedIn(auth runtime.Auth, header http.Header) *runtime.Call {
	call := posted(agent("a"), "application/json", `{}`)
	auth.Type, auth.Header, auth.Placeholders = runtime.AuthHeader, "X-Api-Key", map[string]string{"KEY": "stands"}
	call.Action.Auth = &auth
	header.Set("Content-Type", "application/json")
	call.Request.Raw.Header = header
	return call
}

// The field of the service's key is not held, nor shown, in any spelling that a server takes for it.
func TestTheKeysFieldIsNotHeldInAnySpelling(t *testing.T) {
	d := newDesk(t)
	for _, name := range []string{"X-Api-Key", "X_api_key", "X-API_key"} {
		id := d.ask(t, loggedIn(runtime.Auth{}, http.Header{name: {"sekrit"}}))
		if v := d.show(t, id, true); strings.Contains(v.Text, "sekrit") {
			t.Errorf("%s is shown:\n%s", name, v.Text)
		}
		if held, err := d.Held(t.Context(), agent("a"), id); err != nil || len(held.Header) != 1 {
			t.Errorf("%s is held: %v %v", name, held.Header, err)
		}
	}
}

// A yes for longer is for the login that it was given for, be it the stored one or the caller's.
func TestAYesForLongerIsForOneLogin(t *testing.T) {
	keep := runtime.Auth{Caller: runtime.CallerKeep, KeepIf: "own-*"}
	logins := []http.Header{
		{}, {"X-Api-Key": {"mine"}}, {"X-Api-Key": {"other"}}, {"Authorization": {"Bearer own-1"}}, {"Authorization": {"Bearer own-2"}},
	}
	for i := range logins {
		d := newDesk(t)
		id := d.ask(t, loggedIn(keep, logins[i].Clone()))
		if _, err := d.yes(t, id, approval.Yes{For: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Await(t.Context(), loggedIn(keep, logins[i].Clone()), asked()); err != nil {
			t.Errorf("%v: %v", logins[i], err)
		}
		for j := range logins {
			_, err := d.Await(t.Context(), loggedIn(keep, logins[j].Clone()), asked())
			if used := err == nil; used != (i == j) {
				t.Errorf("the yes for %v is used by %v: %v", logins[i], logins[j], err)
			}
		}
	}
	d := newDesk(t)
	id := d.ask(t, loggedIn(keep, http.Header{}))
	d.accept(t, id)
	if _, err := d.Await(t.Context(), loggedIn(keep, http.Header{"X-Api-Key": {"stands"}}), asked()); err != nil {
		t.Errorf("with the placeholder it is another request: %v", err)
	}
}

// Where no key is stored, the caller's login goes out: the yes is for it, also once one is.
func TestAYesIsForTheLoginThatGoesOut(t *testing.T) {
	stored := false
	d := deskOver(t, newMemory(), "me", func(o *approval.Options) {
		o.Stored = func(_ context.Context, _ runtime.Tenant, name string) (bool, error) { return stored, nil }
		o.Placeholder = func(value string) bool { return value == "stands" }
	})
	mine := func(name, value string) *runtime.Call {
		return loggedIn(runtime.Auth{Ref: "x"}, http.Header{name: {value}})
	}
	for _, place := range []string{"X-Api-Key", "Authorization"} {
		stored = false
		id := d.ask(t, mine(place, "mine"))
		d.accept(t, id)
		if v := d.show(t, id, true); !strings.Contains(v.Text, "login      the requester's own") || strings.Contains(v.Text, "mine") {
			t.Errorf("%s:\n%s", place, v.Text)
		}
		if _, err := d.Held(t.Context(), agent("a"), id); runtime.CodeOf(err) != runtime.CodeInvalidInput {
			t.Errorf("%s is collected without it: %v", place, err)
		}
		if other := d.ask(t, mine(place, "other")); other == id {
			t.Errorf("%s: the yes is used by another login", place)
		}
		stored = true
		if later := d.ask(t, mine(place, "mine")); later == id {
			t.Errorf("%s: the yes is used with the stored key", place)
		}
		stored = false
		if ticket, err := d.Await(t.Context(), mine(place, "mine"), asked()); err != nil || ticket.ID != id {
			t.Errorf("%s: %v %v", place, ticket, err)
		}
	}
	id := d.ask(t, mine("X-Api-Key", "stands"))
	if _, err := d.Held(t.Context(), agent("a"), id); err != nil {
		t.Errorf("a placeholder is no login: %v", err)
	}
}

// A login that the stored key replaces is not kept: without that key, nothing is collected.
func TestNothingIsCollectedOnceTheKeyIsGone(t *testing.T) {
	stored := true
	d := deskOver(t, newMemory(), "me", func(o *approval.Options) {
		o.Stored = func(context.Context, runtime.Tenant, string) (bool, error) { return stored, nil }
	})
	call := loggedIn(runtime.Auth{Ref: "x"}, http.Header{"X-Api-Key": {"mine"}})
	id := d.ask(t, call)
	d.accept(t, id)
	held, err := d.Held(t.Context(), agent("a"), id)
	if err != nil {
		t.Fatal(err)
	}
	again := *call
	again.Request = held.Request()
	again.Request.Approval = id
	stored = false
	_, err = d.Await(t.Context(), &again, asked())
	wantReason(t, err, runtime.ReasonPolicyChanged)
	stored = true
	if ticket, err := d.Await(t.Context(), &again, asked()); err != nil || ticket.ID != id {
		t.Errorf("%v %v", ticket, err)
	}
}
