//go:build unix

package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// A key file that is a link leads to where its owner keeps the key: a rotation puts no new one into
// the home in its place.
func TestARotationRefusesAKeyFileThatIsALink(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	person, kept, linked := k.Open(t, ""), filepath.Join(t.TempDir(), "stick"), filepath.Join(k.Dir, "master.key")
	before := stored(t, k, "master.key")
	if err := os.Rename(linked, kept); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(kept, linked); err != nil {
		t.Fatal(err)
	}
	_, err := person.RotateMasterKey(t.Context())
	if err == nil || !strings.Contains(err.Error(), linked+" is a link") {
		t.Errorf("%v", err)
	}
	if to, err := os.Readlink(linked); err != nil || to != kept || stored(t, k, "master.key") != before {
		t.Errorf("the link leads to %q: %v", to, err)
	}
	gone(t, k, "master.key.next")
}
