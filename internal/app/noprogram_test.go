package app_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// Without /proc, as in a bare chroot, Linux does not tell a process which file its program is.
// That is said, and what helps, rather than which option of ours is empty.
func TestWithoutAProgramOfItsOwnNoScriptRunsAndThatIsSaid(t *testing.T) {
	t.Parallel()
	o := apptest.OptionsOver(filepath.Join(t.TempDir(), "home"), "", &apptest.Buffer{}, true)
	o.Executable = ""
	_, err := apptest.OpenWith(t, o).Scripts()
	e := runtime.AsError(err)
	if err == nil || !strings.Contains(e.Msg, "which file its program is") || !strings.Contains(e.Hint, "/proc") {
		t.Errorf("%+v", e)
	}
}
