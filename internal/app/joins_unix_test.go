//go:build unix

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

// A folder that was made by hand for a home which joins a store, with the key in it, is not
// used while others can open it.
func TestAHomeThatJoinsAStoreIsForItsOwnerAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "master.key"), []byte(strings.Repeat("ab", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	o := apptest.OptionsOver(dir, "", &apptest.Buffer{}, true)
	o.Env = []string{"KIMBAP_STORE_DSN=postgres://k:p@127.0.0.1:1/kimbap"}
	a, err := app.New(o)
	if err == nil {
		err = a.Open(t.Context())
	}
	if runtime.AsError(err).Reason != runtime.ReasonOpenHome {
		t.Errorf("it was opened: %v", err)
	}
}
