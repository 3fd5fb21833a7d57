package app_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// expiredUser is a kimbap with a key whose user name has expired.
func expiredUser(t *testing.T) *apptest.Kimbap {
	t.Helper()
	var ahead atomic.Int64
	k := apptest.New(t, apptest.Options{
		Services: []string{apptest.Notes, callsService},
		Clock:    func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
	})
	for name, until := range map[string]time.Time{"calls.token": {}, "calls.sid": time.Now().Add(time.Hour)} {
		o := app.SecretOptions{Hosts: []string{"calls.notes.test:443"}, Expires: until}
		if _, _, err := k.App.SetSecret(t.Context(), name, runtime.NewSecret("value-of-"+name), o); err != nil {
			t.Fatal(err)
		}
	}
	ahead.Store(int64(2 * time.Hour))
	return k
}

// A user name that has expired is named as that, with the command that stores a new one: `link`
// stores the key alone.
func TestAnExpiredUserNameIsSaid(t *testing.T) {
	t.Parallel()
	k := expiredUser(t)
	s, err := k.App.Status(t.Context())
	if err != nil || !slices.Equal(s.Expired, []string{"calls"}) || s.ExpiredFix != "kimbap vault set calls.sid" {
		t.Errorf("status: %v, %q, %v", s.Expired, s.ExpiredFix, err)
	}
	for _, f := range k.App.Doctor(t.Context()) {
		if f.Check == "credentials" && (f.Said != "the user name that goes with the key of calls has expired" || f.Fix != "kimbap vault set calls.sid") {
			t.Errorf("doctor: %+v", f)
		}
	}
}

// One that has expired cannot be bound anew, and the key is not either then.
func TestARebindWithAnExpiredUserNameChangesNothing(t *testing.T) {
	t.Parallel()
	k := expiredUser(t)
	_, err := k.App.Rebind(t.Context(), "calls")
	if e := runtime.AsError(err); err == nil || e.Code != runtime.CodeNoCredential || !strings.Contains(e.Msg, `"calls.sid" has expired`) || e.Hint != "kimbap vault set calls.sid" {
		t.Errorf("%v", err)
	}
	stored, err := k.App.Secrets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stored {
		if s.Version != 1 || len(s.Hosts) != 1 {
			t.Errorf("%+v", s)
		}
	}
	for _, r := range k.Records(t) {
		if r.Event == "vault.rebind" {
			t.Errorf("recorded: %+v", r.Fields)
		}
	}
}
