//go:build unix

package runtimetest

import (
	"syscall"
	"testing"
)

// Umask sets the process's umask until the test ends. Not for parallel tests.
func Umask(t testing.TB, mask int) {
	old := syscall.Umask(mask)
	t.Cleanup(func() { syscall.Umask(old) })
}
