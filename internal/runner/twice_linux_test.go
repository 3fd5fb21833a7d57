package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The table of mounts parts by blanks alone, of which it writes those in a name otherwise. What
// Unicode takes for one, as the ideographic space that Japanese folders have, stands in it as it is.
func TestCoverHidesWhatShowsTwiceUnderAnyName(t *testing.T) {
	eachUser(t, func(t *testing.T) {
		for _, name := range []string{"a b", "a\u3000b", "a\u00a0b", "a\rb", "a\\b"} {
			base := t.TempDir()
			folder := filepath.Join(base, "covered")
			write(t, filepath.Join(folder, "file"), hidden, 0o600)
			write(t, filepath.Join(base, "other"), "another", 0o600)
			at := filepath.Join(t.TempDir(), name)
			if err := os.Mkdir(at, 0o700); err != nil {
				t.Fatal(err)
			}
			script := `mount --bind "$2" "$3" || exit 9
				/proc/self/fd/3 _run "$1" cat "$3/other" "$3/covered/file" "$1/file"`
			out, _ := inContainer(t, "-Urm", "sh", "-c", script, "sh", folder, base, at)
			if strings.Contains(out, hidden) || !strings.Contains(out, "another") {
				t.Errorf("%q: the program got %s", name, out)
			}
		}
	})
}
