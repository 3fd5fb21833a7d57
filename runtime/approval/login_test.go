package approval_test

import (
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
