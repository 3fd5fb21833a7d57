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
