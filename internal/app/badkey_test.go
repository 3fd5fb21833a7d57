package app_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// What doctor advises of a key in the environment keeps the vault open.
func TestAKeyOfTheEnvironmentIsKeptBeforeItIsUnset(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	configured := func(source string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte("master_key: {source: "+source+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key := strings.Repeat("ab", 32)
	configured("env")
	o := apptest.OptionsOver(home, "", &apptest.Buffer{}, true)
	o.Env = []string{"KIMBAP_MASTER_KEY=" + key}
	a := apptest.OpenWith(t, o)
	file := filepath.Join(home, "master.key")
	if !slices.ContainsFunc(a.Doctor(t.Context()), func(f app.Finding) bool {
		return f.Check == "master key" && strings.Contains(f.Fix, "write it into "+file)
	}) {
		t.Error("doctor does not say where the key is to be kept")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	configured("file")
	b, err := app.New(apptest.OptionsOver(home, "", &apptest.Buffer{}, false))
	if err == nil {
		err = b.Open(t.Context())
	}
	if e := runtime.AsError(err); e.Reason != runtime.ReasonNoMasterKey || !strings.Contains(e.Hint, "KIMBAP_MASTER_KEY") {
		t.Errorf("without it: %v; %s", err, e.Hint)
	}
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	apptest.OpenWith(t, apptest.OptionsOver(home, "", &apptest.Buffer{}, false))
}
