package app_test

import (
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// What takes rights away needs no master key, so one that is damaged, or another one's, as from
// a backup, does not keep a proxy that runs from being locked.
func TestWhatTakesAwayNeedsNoSoundKey(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"empty": "", "no key": "not a key", "another": wrongKey} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := apptest.New(t, apptest.Options{Services: []string{apptest.Notes}})
			_, id := tokenOf(t, k, app.TokenGrant{Agent: "ci", Scopes: []string{"*"}})
			k.Write(t, "master.key", key)
			o := apptest.OptionsOver(k.Dir, "", k.Log, false)
			o.StartLocked = true
			if a, err := app.New(o); err != nil || a.Open(t.Context()) == nil {
				t.Fatalf("what takes nothing away is opened with this key, %v", err)
			}
			o.Despite, o.Emergency, o.AnyKey, o.Storeless = true, true, true, true
			a := apptest.OpenWith(t, o)
			if why := a.KeyFault(); why == nil || why.Hint == "" {
				t.Errorf("of the key it says %v", why)
			}
			if found, err := a.RevokeToken(t.Context(), id); err != nil || !found {
				t.Errorf("revoked: %t, %v", found, err)
			}
			if _, err := a.LockVault(t.Context(), 8*time.Hour); err != nil {
				t.Fatal(err)
			}
			apptest.Within(t, soon, "a proxy that is locked", func() bool {
				why := k.App.Locked()
				return why != nil && why.Reason == runtime.ReasonLocked
			})
			if _, a := k.Connect(t, apptest.Authority); a.Status != 503 || a.Problem.Code != "vault_locked" {
				t.Errorf("%d %+v", a.Status, a.Problem)
			}
		})
	}
}
