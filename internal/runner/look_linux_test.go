package runner

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// What this user may not execute hides no program later in the PATH.
func TestRunPassesOverWhatThisUserMayNotExecute(t *testing.T) {
	needRoot(t, "make a file of another user")
	first, second := t.TempDir(), t.TempDir()
	write(t, filepath.Join(first, "tool"), "#!/bin/sh\necho first\n", 0o700)
	write(t, filepath.Join(second, "tool"), "#!/bin/sh\necho second\n", 0o755)
	cmd := exec.Command("/proc/self/exe", "_look", first+":"+second, "tool")
	for _, dir := range []string{first, second, filepath.Dir(first)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != second+"/tool\n" {
		t.Errorf("%v, %s", err, out)
	}
}
