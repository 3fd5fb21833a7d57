package sandbox_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/sandbox/gate"
)

// What a source comes to use is among what is found without reading it as code, or
// nothing is said. Each of these is a way to reach b.
func TestAScriptUsesNoServiceThatItDoesNotName(t *testing.T) {
	for _, source := range []string{
		"return await tools.a.x() + await tools.b.y()", "const t = tools; await tools.a.x(); await t.b.y()", "(t) => t.b.y()",
		"async t => { await tools.a.x(); return t.b.y() }", "function f(t) { return t.b.y() }", "type => type.b.y()", "console=>console.b.y()",
		"await tools.a.x(); await tools[k].y()", "await tools['a'].x(); await tools[`b`].y()", "const {b} = tools; await b.y()",
		"await tools.a.x(); await t\\u006fols.b.y()", "await tools.search({query: 'b'})", "await tools /* b */ .b.y()", "await tools\n.b\n.y()",
		"const f = () => tools; await tools.a.x(); await f().b.y()", "```js\n(t) => t.b.y()\n```", "await tools?.b?.y()", "await tools?.['b'].y()",
		"await tools['b'].y()", "/* x */ t => t.b.y()", "// x\nt => t.b.y()", "'use strict'; await tools.b.y()", "return [tools].map(t => t.b.y())",
		"await (tools).b.y()", "await tools.a.x(tools)", "export default t => t.b.y()", "type /* */ => type.b.y()", "let f = t => t.b.y(); return f(tools)",
	} {
		if words, ok := sandbox.NamedServices(source); ok && !slices.Contains(words, "b") {
			t.Errorf("%q: only %q", source, words)
		}
	}
	for source, want := range map[string]string{
		"return await tools.github.listIssues({})":                              "github",
		"const a = await tools.github.x(), b = await tools['google-drive'].y()": "github google-drive",
		"let mytools = 1; return tools_a + a.toolsb + await tools\n\t.jot.x()":  "jot",
		"return 1 + 1": "",
	} {
		if words, ok := sandbox.NamedServices(source); !ok || strings.Join(words, " ") != want {
			t.Errorf("%q: %q %t, want %s", source, words, ok, want)
		}
	}
	if got := strings.Join(sandbox.ServiceNames("googleDrive_2"), " "); got != "googleDrive_2 googleDrive-2 google-drive-2" {
		t.Error(got)
	}
}

// FuzzNamedServices holds the quick look against the gate's own reading.
func FuzzNamedServices(f *testing.F) {
	for _, source := range []string{"await tools.a.b()", "t => tools['a'].b(t.c)", "const x = 1; tools.a.b(x)", "`${tools.a.b()}`"} {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		words, ok := sandbox.NamedServices(source)
		program, _ := gate.Check(source)
		if !ok || program == nil {
			return
		}
		for _, path := range program.Tools {
			service, _, _ := strings.Cut(path, ".")
			if !slices.Contains(words, service) {
				t.Errorf("%q uses %s, not among %q", source, path, words)
			}
		}
	})
}
