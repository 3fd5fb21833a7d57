package setup_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// asNobody runs a test again as a user whom the modes of files hold, which root is not.
func asNobody(t *testing.T) {
	t.Helper()
	const nobody = 65534
	cmd := exec.Command("/proc/self/exe", "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
}

// A file that could not be written is as it was, and was changed by nobody.
func TestAWriteThatFailedIsNotRemembered(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	m, path, vars := machine(t)
	apply(t, m, planned(t, m, vars), nil)
	vars[0].Value = "http://127.0.0.1:7799"
	changes := planned(t, m, vars)
	before := read(t, path)
	if err := os.Chmod(filepath.Dir(path), 0o500); err != nil {
		t.Fatal(err)
	}
	err := m.Apply(t.Context(), changes)
	if err := os.Chmod(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if states, serr := m.States(vars); err == nil || read(t, path) != before || serr != nil || states[0].State != "outdated" {
		t.Errorf("after %v: %+v, %v", err, states, serr)
	}
	apply(t, m, planned(t, m, vars), nil)
}

// So it is where nothing had been written before. Nobody can make a file there, root neither.
func TestAFirstWriteThatFailedIsNotRemembered(t *testing.T) {
	m, path, vars := machine(t)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc/sys/kernel/ostype", path); err != nil {
		t.Fatal(err)
	}
	if err := m.Apply(t.Context(), planned(t, m, vars)); err == nil {
		t.Error("written where no file can be made")
	}
	if left, err := m.Removal(nil); err != nil || len(left) != 0 {
		t.Errorf("the book has %+v, %v", left, err)
	}
}
