//go:build !windows

package system_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kimbap-run/kimbap/internal/system"
)

// Each bit that lets group or others do anything makes a file exposed, those of writing
// writable.
func TestModesTellWhoMayUseAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode][3]bool{ // exposed, writable, by all
		0o600: {}, 0o700: {}, 0o400: {},
		0o640: {true}, 0o604: {true}, 0o610: {true}, 0o601: {true},
		0o620: {true, true}, 0o602: {true, true, true},
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		how := system.Exposed(path, info)
		if got := [3]bool{how != "", system.Writable(path, info) != "", system.WritableByAll(path, info)}; got != want {
			t.Errorf("%04o: %v, want %v", mode, got, want)
		}
		if want[0] && how != fmt.Sprintf("mode %04o", mode) {
			t.Errorf("%04o is told as %q", mode, how)
		}
	}
	if got, want := system.Repair("/a b", true), "chmod 700 '/a b'"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The folder itself is opened and synced: one that is not there is an error.
func TestAFolderThatIsNotThereCannotBeMadeDurable(t *testing.T) {
	if err := system.SyncFolder(filepath.Join(t.TempDir(), "gone")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
