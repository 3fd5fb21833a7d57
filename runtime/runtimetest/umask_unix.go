//go:build unix

package runtimetest

import (
	"syscall"
	"testing"
)

// Umask sets the process's umask until the test ends.
func Umask(t testing.TB, mask int) {
	t.Helper()
	Alone(t)
	old := syscall.Umask(mask)
	t.Cleanup(func() { syscall.Umask(old) })
}
