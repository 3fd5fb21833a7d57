package sandbox_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/sandbox"
)

// filled are arguments of about so many bytes.
func filled(n int) string { return fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", n)) }

// A result repeats what its calls were given, as far as all of that is no more than one
// answer may be: for a script of large ones it would be as long as they are together.
func TestAResultRepeatsSoMuchOfItsCalls(t *testing.T) {
	b := newBench(t, func(m *machine) any {
		for _, n := range []int{10, 600, 600, 20} {
			m.do("notes.createNote", filled(n))
		}
		return "done"
	})
	b.o.Limits.Argument, b.o.Limits.Result = 1000, 1000
	b.restart("1:a")
	got := b.execute(sandbox.Script{Source: "x"})
	if !got.Success || len(got.Calls) != 4 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []string{filled(10), filled(600), "null", filled(20)} {
		if string(got.Calls[i].Args) != want || got.Calls[i].Status != sandbox.CallOK {
			t.Errorf("call %d: %s %.40s, want %.40s", i, got.Calls[i].Status, got.Calls[i].Args, want)
		}
	}
}
