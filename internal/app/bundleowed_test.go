package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// What goes wrong with the files of roots is no refused reload, and is tried again until it is
// well: nobody need restart the proxy for a disk that was full.
func TestABundleThatCouldNotBeWrittenIsTriedAgain(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	person := k.Open(t, "")
	before, err := k.App.CA(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	root, bundle := before.Fingerprint(), filepath.Join(k.Dir, "ca", "bundle.pem")
	if err := os.Remove(bundle); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(bundle, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = person.RotateCA(t.Context(), false)
	apptest.Within(t, soon, "the trouble", func() bool {
		running := k.App.Proxies()[0]
		return strings.Contains(running.Authority, "bundle.pem") && running.Problem == "" && k.App.Health(t.Context()) != nil
	})
	if before.Fingerprint() == root {
		t.Errorf("the proxy has the root of before: %v", err)
	}
	if err := os.RemoveAll(bundle); err != nil {
		t.Fatal(err)
	}
	apptest.Within(t, soon, "the bundle", func() bool {
		info, err := os.Stat(bundle)
		return err == nil && info.Mode().IsRegular() && k.App.Proxies()[0].Authority == "" && k.App.Health(t.Context()) == nil
	})
}
