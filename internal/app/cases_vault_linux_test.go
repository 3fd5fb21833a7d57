package app_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// VC-008: a rotation that is killed (kill -9) at each of its writes, syncs,
// links and renames in turn, until one lives. After each, one master key is in
// force and kept alone, every secret opens, and the next rotation begins anew.
// strace kills it, as often as there are steps.
func TestRotationsKilledAtEveryStep_VC008(t *testing.T) {
	t.Parallel()
	needsStrace(t)
	for _, what := range []string{"rotate-master", "rotate-tenant", "rotate-secret"} {
		t.Run(what, func(t *testing.T) { killedRotations(t, what) })
	}
}

func killedRotations(t *testing.T, what string) {
	k := &apptest.Kimbap{Dir: filepath.Join(t.TempDir(), "home"), Log: &apptest.Buffer{}}
	a := k.Make(t)
	values := map[string]string{}
	for i := range 5 {
		name := fmt.Sprint("secret-", i)
		values[name] = fmt.Sprint("value-of-", name)
		if _, _, err := a.SetSecret(t.Context(), name, runtime.NewSecret(values[name]), app.SecretOptions{Hosts: []string{"api.notes.test"}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.CA(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	killed := 0
	for i, kill := range stepsOfKeys("master.key", "master.key.next") {
		for at := 1; ; at++ {
			lived := killedAt(t, kill, at, what, k.Dir, fmt.Sprintf("%d-%d", i, at))
			opensWithOneKey(t, k, values, at)
			if lived {
				break
			}
			killed++
		}
	}
	t.Logf("killed %d times", killed)
	if killed < 10 {
		t.Errorf("killed %d times only: the test looks in the wrong place", killed)
	}
}

// opensWithOneKey opens the home as the next process would.
func opensWithOneKey(t *testing.T, k *apptest.Kimbap, values map[string]string, at int) {
	t.Helper()
	a, err := app.New(apptest.OptionsOver(k.Dir, "", k.Log, false))
	if err == nil {
		err = a.Open(t.Context())
	}
	if err != nil {
		t.Fatalf("after step %d: %v", at, err)
	}
	defer func() { _ = a.Close() }()
	if _, err := os.Stat(filepath.Join(k.Dir, "master.key.next")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after step %d two keys are kept (%v)", at, err)
	}
	for name, value := range values {
		c, err := a.Vault().Credential(t.Context(), runtime.DefaultTenant, &runtime.Auth{Type: runtime.AuthBearer, Ref: name})
		if err != nil || c.Value.Reveal() != value && !(name == "secret-0" && strings.HasPrefix(c.Value.Reveal(), "rotated-")) {
			t.Errorf("after step %d %s is %q (%v)", at, name, c.Value.Reveal(), err)
		}
	}
	if _, err := a.CA(t.Context()); err != nil {
		t.Errorf("after step %d: the authority: %v", at, err)
	}
}
