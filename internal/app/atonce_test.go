package app_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime"
)

// atOnce lets eight Apps over one home, each as another process would be, do the same thing
// at the same moment. Whoever has waited for the others as long as a command does tries again.
func atOnce(t *testing.T, k *apptest.Kimbap, act func(i int, a *app.App) error) {
	t.Helper()
	var people []*app.App
	for range 8 {
		people = append(people, k.Open(t, ""))
	}
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, a := range people {
		wg.Go(func() {
			<-start
			err := act(i, a)
			for err != nil && runtime.AsError(err).Code == runtime.CodeStorageBusy {
				err = act(i, a)
			}
			if err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	close(start)
	wg.Wait()
}

// What eight processes change in the home's small files at once is all there.
func TestWhatIsChangedAtOnceIsNotLost(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	kept := func(name string) map[string]any {
		var out map[string]any
		if err := json.Unmarshal([]byte(stored(t, k, name)), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	const rounds = 4
	t.Run("aliases", func(t *testing.T) {
		atOnce(t, k, func(i int, a *app.App) error {
			for j := range rounds {
				if err := a.SetAlias(t.Context(), fmt.Sprintf("name-%d-%d", i, j), "notes.get-note"); err != nil {
					return err
				}
			}
			return a.RemoveAlias(t.Context(), fmt.Sprintf("name-%d-0", i))
		})
		if got := len(kept("aliases.json")); got != 8*(rounds-1) {
			t.Errorf("%d aliases are left of %d", got, 8*(rounds-1))
		}
	})
	t.Run("trust", func(t *testing.T) {
		dir := t.TempDir()
		atOnce(t, k, func(i int, a *app.App) error {
			for j := range rounds {
				if err := a.Trust(t.Context(), &app.Project{Dir: filepath.Join(dir, fmt.Sprint(i, "-", j), ".kimbap"), Hash: "h"}, false); err != nil {
					return err
				}
			}
			_, err := a.Distrust(t.Context(), filepath.Join(dir, fmt.Sprint(i, "-", 0)))
			return err
		})
		if got := len(kept("trust.json")); got != 8*(rounds-1) {
			t.Errorf("%d trusted projects are left of %d", got, 8*(rounds-1))
		}
	})
	t.Run("services", func(t *testing.T) {
		names := []string{"github", "slack", "stripe", "notion", "linear", "sendgrid", "resend", "vercel"}
		atOnce(t, k, func(i int, a *app.App) error {
			_, err := a.InstallService(t.Context(), names[i], nil)
			return err
		})
		pins, err := home.Folder{Dir: k.Dir}.ReadPins()
		if err != nil || len(pins.Catalogue) != len(names) {
			t.Errorf("%d services are pinned of %d, %v", len(pins.Catalogue), len(names), err)
		}
		atOnce(t, k, func(i int, a *app.App) error {
			if i%2 == 0 {
				return nil
			}
			return a.RemoveService(t.Context(), names[i])
		})
		if pins, err = (home.Folder{Dir: k.Dir}).ReadPins(); err != nil || len(pins.Catalogue) != len(names)/2 {
			t.Errorf("%d services are pinned of %d, %v", len(pins.Catalogue), len(names)/2, err)
		}
	})
}

// Of services that are installed at once and cannot be in force together one is
// refused: the home is left with services that fit each other.
func TestServicesThatAreInstalledAtOnceFitEachOther(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	files := make([]string, 8)
	for i := range files {
		files[i] = filepath.Join(t.TempDir(), "rival.yaml")
		text := fmt.Sprintf("name: rival-%d\nversion: 1.0.0\ndescription: More\nbase_url: https://rival.test\nauth: {type: none}\nactions:\n  get: {description: Get, method: GET, path: /x, risk: {level: low}}\n", i)
		if err := os.WriteFile(files[i], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var refused sync.Map
	atOnce(t, k, func(i int, a *app.App) error {
		if _, err := a.InstallService(t.Context(), files[i], nil); err != nil {
			refused.Store(i, err)
		}
		return nil
	})
	n := 0
	refused.Range(func(any, any) bool { n++; return true })
	if n != len(files)-1 {
		t.Errorf("%d of %d were refused", n, len(files))
	}
	k.Open(t, "") // which refuses services that do not fit each other
}
