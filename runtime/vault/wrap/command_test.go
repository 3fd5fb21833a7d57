package wrap

import (
	"slices"
	"testing"
)

// Windows knows no case of the names of variables, and kimbap's own are in capitals there.
func TestACommandsVariableHasAnyCaseOnWindows(t *testing.T) {
	for system, want := range map[string][]string{"windows": {"PROGRAMFILES=C:"}, "linux": nil} {
		if got := environment(system, []string{"PROGRAMFILES=C:", "OTHER=1"}, []string{"ProgramFiles"}); !slices.Equal(got, want) {
			t.Errorf("%s: %q", system, got)
		}
	}
}
