package runtime_test

import (
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// What is declared optional can be left out: the owner where repo may say both, but
// not repo too.
func TestWhatACallCannotDoWithout(t *testing.T) {
	text := func(name, split string, required bool) runtime.Param {
		return runtime.Param{Name: name, Type: runtime.TypeString, Split: split, Required: required}
	}
	for name, c := range map[string]struct {
		params []runtime.Param
		needed string
	}{
		"both by themselves":   {[]runtime.Param{text("owner", "", true), text("repo", "", true)}, "owner repo "},
		"one that says both":   {[]runtime.Param{text("owner", "", true), text("repo", "{owner}/{repo}", true)}, "repo "},
		"another says them":    {[]runtime.Param{text("owner", "", true), text("repo", "", true), text("full", "{owner}/{repo}", false)}, ""},
		"with a default":       {[]runtime.Param{{Name: "page", Type: runtime.TypeInteger, Required: true, Default: int64(1)}}, ""},
		"that are not wanted":  {[]runtime.Param{text("state", "", false)}, ""},
		"a name inside a name": {[]runtime.Param{text("own", "", true), text("repo", "{owner}/{repo}", true)}, "own repo "},
	} {
		a, got := &runtime.Action{Params: c.params}, ""
		for i := range a.Params {
			if a.Needs(&a.Params[i]) {
				got += a.Params[i].Name + " "
			}
		}
		if got != c.needed {
			t.Errorf("%s: needed are %q, want %q", name, got, c.needed)
		}
	}
}
