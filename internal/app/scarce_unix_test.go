//go:build unix

package app_test

import (
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// A process that may open nothing more does not take that for an order of its owner to lock.
func TestAnOrderIsNotReadFromAFileThatIsNotThere(t *testing.T) {
	k := apptest.New(t, apptest.Options{})
	fillers := runtimetest.Exhaust(t)
	locked := app.KeptLock(k.App)
	for _, f := range fillers {
		_ = f.Close()
	}
	if locked {
		t.Error("nobody has locked anything")
	}
}
