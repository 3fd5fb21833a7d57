package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// rotates replaces the master key.
func rotates(t *testing.T, a *app.App) {
	t.Helper()
	if done, err := a.RotateMasterKey(t.Context()); err != nil || done.Keys == 0 {
		t.Errorf("a rotation of the master key: %+v, %v", done, err)
	}
}

// Commands that rotate keys of one home, each of which was open before the other had rotated the
// master key, do so one after the other: none of them takes the right key for a wrong one.
func TestRotationsSideBySide(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	one, other := k.Open(t, ""), k.Open(t, "")
	for range 2 {
		rotates(t, one)
		rotates(t, other)
	}
	for version, a := range []*app.App{one, k.Open(t, "")} {
		rotates(t, other)
		if done, err := a.RotateTenantKey(t.Context()); err != nil || done.Version != version+2 {
			t.Errorf("beside it, a rotation of the tenant's key: %+v, %v", done, err)
		}
	}
	if text := strings.TrimSpace(stored(t, k, "master.key")); len(text) != 64 {
		t.Errorf("%d characters are the key", len(text))
	}
	gone(t, k, "master.key.next")
}

// A command that reads the master key while others rotate it, perhaps twice, reads it anew; only
// a key that stays wrong is said to be.
func TestAKeyThatIsRotatedWhileItIsRead(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	begun, other := k.Open(t, ""), k.Open(t, "")
	if err := app.RenewKeyOvertaken(begun, t.Context(), 3, func() { rotates(t, other) }); err != nil {
		t.Error(err)
	}
	another := k.Open(t, "")
	err := app.RenewKeyOvertaken(another, t.Context(), 1, func() {
		rotates(t, other)
		foreign := strings.Repeat("ab", 32) + "\n"
		if err := os.WriteFile(filepath.Join(k.Dir, "master.key"), []byte(foreign), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	refusedFor(t, err, runtime.CodeVaultLocked, runtime.ReasonWrongMasterKey)
}

// What a killed rotation leaves of keys that never came into force goes with the next start.
func TestTheNextStartRemovesWhatAKilledRotationLeft(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	litter := []string{"master.key.new-1", "master.key.next.new-22"}
	for _, name := range litter {
		if err := os.WriteFile(filepath.Join(k.Dir, name), []byte(strings.Repeat("ab", 32)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := stored(t, k, "master.key")
	k.Open(t, "")
	for _, name := range litter {
		gone(t, k, name)
	}
	if stored(t, k, "master.key") != before {
		t.Error("the key itself was replaced")
	}
}
