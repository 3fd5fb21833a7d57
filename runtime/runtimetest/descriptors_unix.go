//go:build unix

package runtimetest

import (
	"os"
	"syscall"
	"testing"
)

// Exhaust takes every descriptor that the process may have, after it has lowered the limit
// for the time of the test. Whoever closes one of what it returns has a descriptor again.
// Tests beside it would have none: it is for those that run alone.
func Exhaust(t testing.TB) []*os.File {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := syscall.Rlimit{Cur: min(limit.Cur, 512), Max: limit.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) })
	var taken []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return taken
		}
		t.Cleanup(func() { _ = f.Close() })
		taken = append(taken, f)
	}
}
