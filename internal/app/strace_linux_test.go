package app_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// needsStrace leaves a test out where there is no strace, but never in CI.
func needsStrace(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("LEFT OUT: %v (make setup installs it)", err)
	}
}

// failing starts one more proxy over the home, for which system calls on these files
// of it fail: fault is strace's, "fsync,fdatasync:error=EIO", when is which of them.
// The address is "" when it refuses to start; said is what it writes to its log.
func failing(t *testing.T, k *apptest.Kimbap, fault, when string, files ...string) (address string, said *strings.Builder) {
	t.Helper()
	calls, _, _ := strings.Cut(fault, ":")
	plain, said := start(t, "proxy", k.Dir)
	args := []string{"-f", "-qq", "-o", "/dev/null", "-e", "trace=" + calls, "-e", "inject=" + fault + ":when=" + when}
	for _, file := range files {
		args = append(args, "-P", filepath.Join(k.Dir, file))
	}
	cmd := exec.Command("strace", append(append(args, plain.Path), plain.Args[1:]...)...)
	cmd.Env, cmd.Stderr = plain.Env, said
	address, end, err := firstLine(t, cmd)
	if err != nil {
		end() // all that it says has come then
		return "", said
	}
	t.Cleanup(end)
	return address, said
}
