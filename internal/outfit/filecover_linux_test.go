package outfit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kimbap-run/kimbap/internal/outfit"
)

// A file that is open already has another number in the process that covers, so it is covered
// by the name that it has, if it has one: a shell removes that of a here-document.
func TestAHandleIsCoveredByTheNameOfItsFile(t *testing.T) {
	env := outfit.NewEnvironment(nil)
	for name, want := range map[string]bool{"key": true, "removed": false, "another has the name": false} {
		file := filepath.Join(t.TempDir(), "key")
		open, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		defer open.Close()
		var paths []string
		if want {
			paths = env.CoverOf(file, t.TempDir()).Paths
		} else if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if name == "another has the name" { // by which the system shows one that is removed
			if err := os.WriteFile(file+" (deleted)", nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, base := range []string{"/dev/fd/%d", "/proc/self/fd/%d"} {
			got := env.CoverOf(fmt.Sprintf(base, open.Fd()), t.TempDir()).Paths
			if !slices.Equal(got, paths) || want && len(got) != 1 {
				t.Errorf("%s, %s: %q, want %q", name, base, got, paths)
			}
		}
	}
}
