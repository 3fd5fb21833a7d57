package app_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	troubled := func() bool {
		running := k.App.Proxies()[0]
		return strings.Contains(running.Authority, "bundle.pem") && running.Problem == "" && k.App.Health(t.Context()) != nil
	}
	for try := 0; !troubled(); try++ {
		if try == 20 {
			t.Fatal("the proxy took up 20 roots, and nothing was in the way of any bundle")
		}
		if err := os.RemoveAll(bundle); err != nil {
			t.Fatal(err)
		}
		if _, err := person.RotateCA(t.Context(), false); err != nil { // with nothing in the way, or it does nothing
			t.Fatal(err)
		}
		if err := errors.Join(os.Remove(bundle), os.MkdirAll(filepath.Join(bundle, "in the way"), 0o700)); err != nil {
			t.Fatal(err)
		}
		for until := time.Now().Add(soon / 5); time.Now().Before(until) && !troubled(); { // it may have been faster
			time.Sleep(10 * time.Millisecond)
		}
	}
	if before.Fingerprint() == root {
		t.Error("the proxy has the root of before")
	}
	if err := os.RemoveAll(bundle); err != nil {
		t.Fatal(err)
	}
	apptest.Within(t, soon, "the bundle", func() bool {
		info, err := os.Stat(bundle)
		return err == nil && info.Mode().IsRegular() && k.App.Proxies()[0].Authority == "" && k.App.Health(t.Context()) == nil
	})
}
