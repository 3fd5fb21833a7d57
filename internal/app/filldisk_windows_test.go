package app_test

import (
	"testing"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// fillDisk fails: Windows has no limit on the size of files to do it with.
func fillDisk(t *testing.T, _ *apptest.Kimbap) func() {
	t.Helper()
	t.Fatal("no way to fill a disk here")
	return nil
}

// limitFiles fails as fillDisk does.
func limitFiles(t *testing.T, _ uint64) func() {
	t.Helper()
	return fillDisk(t, nil)
}

// inOwnProcess: there is no limit that could reach another test.
func inOwnProcess(*testing.T) bool { return true }
