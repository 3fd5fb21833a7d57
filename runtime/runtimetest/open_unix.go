//go:build !windows

package runtimetest

import (
	"os"
	"testing"
)

// Open lets everybody on the machine read a file or folder.
func Open(t testing.TB, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Chmod(path, info.Mode().Perm()|0o004)
	}
	if err != nil {
		t.Fatal(err)
	}
}
