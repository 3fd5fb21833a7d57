package system_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kimbap-run/kimbap/internal/system"
)

// A folder is one folder, whatever characters its path has.
func TestFilesOfAFolderWithCharactersOfAPattern(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "a[1]", "[!]")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"proxy-2.json", "proxy-1.json", "proxy-.json", "proxy-1.pass", "api-1.json", "proxy.json"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in := func(names ...string) (out []string) {
		for _, name := range names {
			out = append(out, filepath.Join(folder, name))
		}
		return out
	}
	if got, want := system.Files(folder, "proxy-", ".json"), in("proxy-.json", "proxy-1.json", "proxy-2.json"); !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
	if got := system.Files(folder, "proxy-1.json", ".json"); got != nil {
		t.Errorf("one ending was taken twice: %q", got)
	}
	if got := system.Files(filepath.Join(folder, "none"), "", ""); got != nil {
		t.Errorf("%q", got)
	}
}
