package app_test

import (
	"errors"
	"fmt"
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

// steps are those system calls that have to do with these files of a home.
type steps struct {
	calls string
	files []string
}

// stepsOfKeys are what a change of the master key does, in these files and in the
// database. Files of the database are written by a thread of their own, and strace
// counts the steps of each thread, and each kind of call, by itself: what comes before
// and after them is killed alone, and so is each kind.
func stepsOfKeys(files ...string) []steps {
	files = append(files, ".")
	return []steps{
		{"write,pwrite64,fsync,fdatasync,unlink,unlinkat,ftruncate", []string{"kimbap.db", "kimbap.db-wal", "kimbap.db-shm"}},
		{"fsync,fdatasync", files}, {"link,linkat,rename,renameat,renameat2", files}, {"unlink,unlinkat", files},
	}
}

// killedAt runs this binary in a part of its own over a home, and strace kills it (kill
// -9) before a step; true: it lived.
func killedAt(t *testing.T, kill steps, at int, what, home string, args ...string) bool {
	t.Helper()
	plain, said := start(t, what, append([]string{home}, args...)...)
	trace := []string{"-f", "-qq", "-o", "/dev/null", "-e", "trace=" + kill.calls, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", kill.calls, at)}
	for _, file := range kill.files {
		trace = append(trace, "-P", filepath.Join(home, file))
	}
	cmd := exec.Command("strace", append(append(trace, plain.Path), plain.Args[1:]...)...)
	cmd.Env, cmd.Stderr = plain.Env, said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() > 0) {
		t.Fatalf("step %d: %v: %s", at, err, said)
	}
	return err == nil
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
