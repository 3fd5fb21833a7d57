package outfit

import (
	"os"
	"path/filepath"
	"testing"
)

// What an isolated program does not see is no place for its files, however it is called.
func TestTheFilesOfAnIsolatedRunAreNotInRun(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/run", link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/run", "/run/user/1", "/var/run", "/var/run/user/1", link} {
		t.Setenv("TMPDIR", dir)
		if at := (Run{Isolate: true}).above(); at != "/tmp" {
			t.Errorf("TMPDIR=%s: they are in %s", dir, at)
		}
		if at := (Run{}).above(); at != dir {
			t.Errorf("not isolated, TMPDIR=%s: they are in %s", dir, at)
		}
	}
	t.Setenv("TMPDIR", "/runner")
	if at := (Run{Isolate: true}).above(); at != "/runner" {
		t.Errorf("they are in %s", at)
	}
}
