package app_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// A key of the environment cannot be taken away, and lock says so; kimbap opens the
// vault again with the PIN alone.
func TestAKeyOfTheEnvironmentIsClosedNotSealed(t *testing.T) {
	t.Parallel()
	k := &apptest.Kimbap{Dir: t.TempDir() + "/home", Log: &apptest.Buffer{}}
	with := openerOver(t, k)
	env := "KIMBAP_MASTER_KEY=" + strings.Repeat("a1", 32)
	person := with("", env)
	withPin(t, person)
	if done := lockUp(t, person); done.Sealed {
		t.Errorf("%+v", done)
	}
	gone(t, k, "master.sealed")
	late := with("late", env)
	if why := late.Locked(); why == nil || !strings.Contains(why.Msg, "comes from the environment, where kimbap cannot seal it") {
		t.Errorf("%v", why)
	}
	if who, err := late.UnlockNeeds(t.Context()); err != nil || who != person.Operator().ID {
		t.Errorf("%q %v", who, err)
	}
	refusedFor(t, late.UnlockVault(t.Context(), runtime.NewSecret("000000")), runtime.CodeForbidden, runtime.ReasonWrongPIN)
	if !late.Vault().Locked() {
		t.Error("a wrong PIN leaves it open")
	}
	if err := late.UnlockVault(t.Context(), runtime.NewSecret(pin)); err != nil || late.Vault().Locked() {
		t.Error(err)
	}
}

// The token of a run that slept for longer than it is good is ended by a lock, and by who
// revokes all tokens, as every other: the run does not make it good again when it wakes.
func TestARunThatSleptDoesNotOutliveALock(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(person *app.App) error{
		"a lock":     func(person *app.App) error { _, err := person.LockVault(t.Context(), 0); return err },
		"revoke all": func(person *app.App) error { _, err := person.RevokeTokens(t.Context()); return err },
	} {
		var slept atomic.Int64
		clock := func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
		k := apptest.New(t, apptest.Options{Clock: clock})
		person := k.Open(t, "")
		withPin(t, person)
		_, made, err := person.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Run: "run_1", Scopes: []string{"*"}, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		slept.Store(int64(2 * time.Hour))
		if err := end(person); err != nil {
			t.Fatal(err)
		}
		if left, ok, err := person.ProlongToken(t.Context(), made.ID, time.Hour); ok || err != nil {
			t.Errorf("after %s: good for %v again (%v)", what, left, err)
		}
	}
}

// A key that is a link is not said to be sealed: what it leads to would stay.
func TestAKeyThatIsALinkIsNotSealed(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	key, there := filepath.Join(k.Dir, "master.key"), filepath.Join(t.TempDir(), "real.key")
	if err := errors.Join(os.Rename(key, there), os.Symlink(there, key)); err != nil {
		t.Fatal(err)
	}
	person := k.Open(t, "")
	withPin(t, person)
	if done, err := person.LockVault(t.Context(), 0); done.Sealed || err == nil || !strings.Contains(err.Error(), "closed, but its master key is not sealed") {
		t.Errorf("%+v %v", done, err)
	}
	gone(t, k, "master.sealed")
	if person.Locked() == nil {
		t.Error("the vault is open")
	}
}
