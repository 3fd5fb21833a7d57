//go:build unix

package app_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// A proxy whose database was moved, removed or replaced, as by a backup that somebody put
// there, does not see what is revoked or locked since. It sends nothing with a stored key
// then, says so, and goes on when its own files are back.
func TestADatabaseThatIsReplacedUnderAProxyIsNotUsed(t *testing.T) {
	t.Parallel()
	get := "GET https://" + apptest.Host + "/notes/1"
	aside := func(t *testing.T, dir string, names ...string) (back func()) {
		away := t.TempDir()
		move := func(from, to string) {
			for _, name := range names {
				if err := os.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		move(dir, away)
		return func() { move(away, dir) }
	}
	all := []string{"kimbap.db", "kimbap.db-wal", "kimbap.db-shm"}
	for name, displace := range map[string]func(t *testing.T, k *apptest.Kimbap, backup string) (back func()){
		"replaced by a backup": func(t *testing.T, k *apptest.Kimbap, backup string) func() {
			back := aside(t, k.Dir, all...)
			if err := os.Rename(backup, filepath.Join(k.Dir, "kimbap.db")); err != nil {
				t.Fatal(err)
			}
			return back
		},
		"removed":         func(t *testing.T, k *apptest.Kimbap, _ string) func() { return aside(t, k.Dir, all...) },
		"without its log": func(t *testing.T, k *apptest.Kimbap, _ string) func() { return aside(t, k.Dir, all[1]) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := apptest.New(t, apptest.Options{Services: []string{apptest.Notes}})
			secret, id := tokenOf(t, k, app.TokenGrant{Agent: "ci", Scopes: []string{"*"}})
			backup := filepath.Join(t.TempDir(), "before.db")
			if _, err := unopened(t, k).Databases().Copy(t.Context(), backup); err != nil {
				t.Fatal(err)
			}
			if a := k.Do(t, get, ""); a.Status != 200 {
				t.Fatalf("before: %d %+v", a.Status, a.Problem)
			}
			back := displace(t, k, backup)
			apptest.Within(t, soon, "a refusal", func() bool { return k.Do(t, get, "").Status == 503 })
			seen := len(k.Up.Requests())
			if a := k.Do(t, get, ""); a.Problem.Reason != "storage_unavailable" || !strings.Contains(a.Body, "moved, removed or replaced") || strings.Contains(a.Body, k.Dir) {
				t.Errorf("%d %s", a.Status, a.Body)
			}
			if _, err := k.Client(t, secret).Get("https://" + apptest.Host + "/notes/1"); err == nil {
				t.Error("a token is good of which nobody can know whether it was revoked")
			}
			if healthOf(t, k) != http.StatusServiceUnavailable {
				t.Error("it says that it is well")
			}
			if name == "replaced by a backup" {
				if _, err := k.Open(t, "").RevokeToken(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			if n := len(k.Up.Requests()); n != seen {
				t.Errorf("%d requests left", n-seen)
			}
			if name == "replaced by a backup" {
				return
			}
			back()
			apptest.Within(t, soon, "an end of the fault", func() bool { return k.Do(t, get, "").Status == 200 })
			apptest.Within(t, soon, "a health that is well again", func() bool { return healthOf(t, k) == http.StatusOK })
		})
	}
}

// Somebody removes the folder of states under a proxy that runs: it says again that it is
// there, to status, to who changes what is stored, and to what must not move its home.
func TestAProxyStaysKnownWhoseStatesAreRemoved(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Services: []string{apptest.Notes}})
	states := filepath.Join(k.Dir, "state")
	known := func() bool { return len(app.RunningOver(k.Dir)) == 1 }
	apptest.Within(t, soon, "the proxy", known)
	remove := func() { // which may meet the proxy as it says something there
		apptest.Within(t, soon, "an empty place", func() bool { return os.RemoveAll(states) == nil })
	}
	for range 2 {
		remove()
		apptest.Within(t, soon, "the proxy, again", known)
	}
	if info, err := os.Stat(states); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info, err)
	}
	a := k.Open(t, "")
	remove()
	if err := a.SetAlias(t.Context(), "n", "notes.get-note"); err != nil { // which locks a file there
		t.Error(err)
	}
}
