package app_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

const callsService = `name: calls
version: 1.0.0
base_url: https://calls.notes.test
hosts: [more.notes.test]
auth: {type: basic, basic: {username_ref: calls.sid, password_ref: calls.token}}
actions:
  list-calls: {description: List, method: GET, path: /calls, idempotent: true, risk: {level: low}}
`

// That a user name may go to other hosts is recorded as it is of the key that it goes with.
func TestARebindIsRecordedOfTheUserNameToo(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Services: []string{apptest.Notes, callsService}})
	owner := k.Open(t, "")
	rebound := func(names ...string) (events []string) {
		t.Helper()
		for _, name := range names {
			if _, _, err := owner.SetSecret(t.Context(), name, runtime.NewSecret("value-of-"+name), app.SecretOptions{Hosts: []string{"calls.notes.test:443"}}); err != nil {
				t.Fatal(err)
			}
		}
		mark := k.Mark(t)
		if _, err := owner.Rebind(t.Context(), "calls"); err != nil {
			t.Fatal(err)
		}
		for _, r := range k.Records(t) {
			if r.Seq > mark[r.Slot] && r.Event == "vault.rebind" && r.Fields["result"] == "" {
				events = append(events, r.Fields["name"]+" "+r.Fields["hosts"])
			}
		}
		return events
	}
	const hosts = " calls.notes.test:443 more.notes.test:443"
	if got := strings.Join(rebound("calls.token", "calls.sid"), ", "); got != "calls.token"+hosts+", calls.sid"+hosts {
		t.Errorf("recorded: %s", got)
	}
	stored, err := owner.Secrets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stored {
		if s.Name == "calls.sid" && (s.Version != 2 || len(s.Hosts) != 2) {
			t.Errorf("the user name: %+v", s)
		}
	}
}

// Where no user name is stored there is nothing to bind, and nothing is recorded of it.
func TestARebindWithoutAUserNameIsOfTheKeyAlone(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Services: []string{apptest.Notes, callsService}})
	owner := k.Open(t, "")
	if _, _, err := owner.SetSecret(t.Context(), "calls.token", runtime.NewSecret("value-1"), app.SecretOptions{Hosts: []string{"calls.notes.test:443"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := owner.Rebind(t.Context(), "calls"); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range k.Records(t) {
		if r.Event == "vault.rebind" && r.Fields["result"] == "" {
			names = append(names, r.Fields["name"])
		}
	}
	if !slices.Equal(names, []string{"calls.token"}) {
		t.Errorf("recorded of %q", names)
	}
}
