package app_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// A lock or an unlock that is killed (kill -9) at each of its writes, syncs, renames
// and removals in turn, until one lives. After each, the next command finds the vault
// either open, with the key in its place alone, or locked, with the key sealed alone
// and no run left with a token; and what is sealed the PIN opens.
func TestLocksKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	needsStrace(t)
	for _, what := range []string{"lock", "unlock"} {
		t.Run(what, func(t *testing.T) { killedLocks(t, what) })
	}
}

func killedLocks(t *testing.T, what string) {
	k := &apptest.Kimbap{Dir: filepath.Join(t.TempDir(), "home"), Log: &apptest.Buffer{}}
	a := k.Make(t)
	values := map[string]string{"secret-0": "value-of-secret-0"}
	if _, _, err := a.SetSecret(t.Context(), "secret-0", runtime.NewSecret(values["secret-0"]), app.SecretOptions{Hosts: []string{"api.notes.test"}}); err != nil {
		t.Fatal(err)
	}
	withPin(t, a)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	seen := map[bool]int{}
	for _, kill := range stepsOfKeys("master.key", "master.sealed") {
		for at, lived := 1, false; !lived; at++ {
			begin(t, k, what)
			lived = killedAt(t, kill, at, what, k.Dir, pin)
			locked := standsWhole(t, k, at)
			if seen[locked]++; locked {
				opened(t, k)
			}
			opensWithOneKey(t, k, values, at)
			if lived && locked != (what == "lock") {
				t.Errorf("%s did nothing", what)
			}
		}
	}
	t.Logf("left open %d times, locked %d times", seen[false], seen[true])
	if seen[false] < 3 || seen[true] < 3 || seen[false]+seen[true] < 10 {
		t.Error("the test looks in the wrong place")
	}
}

// begin gives the home a run's token, and locks it before an unlock.
func begin(t *testing.T, k *apptest.Kimbap, what string) {
	t.Helper()
	a := nextCommand(t, k)
	defer func() { _ = a.Close() }()
	if _, _, err := a.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Run: "run_1", Scopes: []string{"*"}, TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if what == "unlock" {
		lockUp(t, a)
	}
}

// nextCommand opens the home as the next command would that may find it locked.
func nextCommand(t *testing.T, k *apptest.Kimbap) *app.App {
	t.Helper()
	o := apptest.OptionsOver(k.Dir, "", k.Log, false)
	o.StartLocked = true
	a, err := app.New(o)
	if err == nil {
		err = a.Open(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// standsWhole holds the home to one of the two states, and returns whether it is locked.
func standsWhole(t *testing.T, k *apptest.Kimbap, at int) bool {
	t.Helper()
	a := nextCommand(t, k)
	defer func() { _ = a.Close() }()
	locked := a.Locked() != nil
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(k.Dir, name))
		return !errors.Is(err, fs.ErrNotExist)
	}
	if there("master.key") == locked || there("master.sealed") != locked {
		t.Errorf("after step %d: locked %v, the key in its place %v, sealed %v", at, locked, there("master.key"), there("master.sealed"))
	}
	if !locked {
		return false
	}
	if left, err := filepath.Glob(filepath.Join(k.Dir, "master.key*")); err != nil || len(left) > 0 {
		t.Errorf("after step %d it is locked, and %q may hold the key (%v)", at, left, err)
	}
	tokens, err := a.ListTokens(t.Context())
	for _, one := range tokens {
		if one.Revoked.IsZero() {
			t.Errorf("after step %d it is locked, and a run has a token", at)
		}
	}
	if err != nil {
		t.Error(err)
	}
	return true
}

// opened opens the vault with the PIN.
func opened(t *testing.T, k *apptest.Kimbap) {
	t.Helper()
	a := nextCommand(t, k)
	defer func() { _ = a.Close() }()
	if err := a.UnlockVault(t.Context(), runtime.NewSecret(pin)); err != nil {
		t.Fatal(err)
	}
}
