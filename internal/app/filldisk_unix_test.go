//go:build unix

package app_test

import (
	"sync"
	"syscall"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// fillDisk makes every further write to files of this size fail in this
// process, and returns what ends that.
func fillDisk(t *testing.T, k *apptest.Kimbap) func() {
	t.Helper()
	runtimetest.Alone(t)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	now := syscall.Rlimit{Cur: 1, Max: old.Max}
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
