package runner

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever may not enter the working folder, as a user to whom root has switched in its own, has
// that said: the program is well, and nothing covers the folder.
func TestAWorkingFolderThatCannotBeEnteredIsSaid(t *testing.T) {
	needRoot(t, "stand in a folder that another user may not enter")
	here := filepath.Join(t.TempDir(), "closed", "here")
	if err := os.MkdirAll(here, 0o700); err != nil {
		t.Fatal(err)
	}
	covered := t.TempDir()
	for _, dir := range []string{filepath.Dir(covered), covered} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/proc/self/fd/3", "_run", covered, "echo", "ran")
	cmd.Dir, cmd.ExtraFiles = here, []*os.File{self}
	out, err := cmd.CombinedOutput()
	want := "failed: cannot start echo: the working folder " + here + " cannot be entered from here: permission denied\nfix: cd to another folder, and start it there\n"
	if err == nil || !strings.HasSuffix(string(out), want) {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
}
