package vm_test

import (
	"testing"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/gate"
)

// How deep calls nest is in the docs. Each async function counts twice, since the engine goes
// through itself to begin it.
func TestHowDeepCallsNest(t *testing.T) {
	t.Parallel()
	deep := limits()
	deep.Stack = 4000
	for source, kind := range map[string]frame.Kind{
		"const f = n => n ? 1 + f(n - 1) : 0; return f(3900)":                   "",
		"const f = n => n ? 1 + f(n - 1) : 0; return f(4100)":                   frame.KindStack,
		"const f = async n => n ? 1 + await f(n - 1) : 0; return await f(1900)": "",
		"const f = async n => n ? 1 + await f(n - 1) : 0; return await f(2100)": frame.KindStack,
		"const f = n => n ? [1].map(() => f(n - 1))[0] : 0; return f(1200)":     "",
	} {
		p, refusal := gate.Check(source)
		if refusal != nil {
			t.Fatal(refusal)
		}
		done := runOn(t, p, newHeld(nil), deep)
		if (done.Failure == nil) != (kind == "") || done.Failure != nil && done.Failure.Kind != kind {
			t.Errorf("%s: %q %+v", source, done.Value, done.Failure)
		}
	}
}
