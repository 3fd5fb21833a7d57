//go:build unix

package app_test

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// inOwnProcess reports whether the test runs in a process of its own, and else has it run
// in one. What fills the disk would keep the log of the tests from being written too, which
// then fails all of them.
func inOwnProcess(t *testing.T) bool {
	t.Helper()
	const own = "KIMBAP_TEST_OWN_PROCESS"
	if os.Getenv(own) == t.Name() {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), own+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// fillDisk makes every further write to files of this size fail in this
// process, and returns what ends that.
func fillDisk(t *testing.T, _ *apptest.Kimbap) func() {
	t.Helper()
	return limitFiles(t, 1)
}

// limitFiles makes every write of this process beyond so many bytes of a file fail, and
// returns what ends that.
func limitFiles(t *testing.T, size uint64) func() {
	t.Helper()
	runtimetest.Alone(t)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	now := syscall.Rlimit{Cur: size, Max: old.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &now); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return end
}
