package gate

import (
	"encoding/json"
	"strings"

	"github.com/dop251/goja/ast"
	"github.com/evanw/esbuild/pkg/api"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// lower rewrites code that goja cannot parse, newer syntax or TypeScript, to what it
// can, and parses that. What is both is JavaScript, unless it passes types.
func lower(u user, open, end string, typed bool) (*tree, []frame.Refusal) {
	if !typed {
		if t, _ := lowerAs(api.LoaderJS, u, open, end); t != nil {
			return t, nil
		}
	}
	return lowerAs(api.LoaderTS, u, open, end)
}

// lowerAs rewrites code of one of the two languages. Declarations of imports stay
// (verbatimModuleSyntax), so that they are seen and refused.
func lowerAs(language api.Loader, u user, open, end string) (*tree, []frame.Refusal) {
	wrapped := open + u.code() + end
	t := &tree{lowered: true, places: places{user: u, prefix: len(open), lines: linesOf(wrapped)}}
	out := api.Transform(wrapped, api.TransformOptions{
		Loader: language, Target: api.ES2022, Sourcemap: api.SourceMapExternal, SourcesContent: api.SourcesContentExclude,
		Sourcefile: FileName, LogLevel: api.LogLevelSilent, LegalComments: api.LegalCommentsNone,
		Supported:   map[string]bool{"for-await": false, "async-generator": false},
		TsconfigRaw: `{"compilerOptions":{"verbatimModuleSyntax":true,"useDefineForClassFields":true}}`,
	})
	if len(out.Errors) > 0 {
		return nil, t.errors(out.Errors)
	}
	t.places.parsed = withoutLast(mended(string(out.Code)))
	var m struct {
		Mappings string `json:"mappings"`
	}
	if err := json.Unmarshal(out.Map, &m); err != nil {
		return nil, []frame.Refusal{t.places.refuse(0, "The code cannot be rewritten")}
	}
	t.places.moved = readMapping(m.Mappings)
	if err := t.read(); err != nil {
		return nil, t.syntax(err)
	}
	if !t.adopt() {
		return nil, []frame.Refusal{t.places.refuse(0, "The code ends the function that holds it")}
	}
	return t, nil
}

// mended is rewritten code with the faults of esbuild's helpers put right, those of async
// generators: a return that a loop's break makes was made again after each await of a
// finally, which ended there, and not only after one of yield*, which counts on it. No line
// moves, and nothing but helpers stands before the wrapper.
func mended(code string) string {
	end := max(0, strings.Index(code, "(async function() {"))
	return strings.NewReplacer(
		`resume(k === "return" ? k : "next", `, `resume(v[1] === "return" ? v[1] : "next", `,
		`        }), 1)`, `        }), k)`,
	).Replace(code[:end]) + code[end:]
}

// lastEscape is the last character that there is, as esbuild writes it, and lastPair the
// same in a way that goja can read.
const (
	lastEscape = `\u{10FFFF}`
	lastPair   = `\uDBFF\uDFFF`
)

// withoutLast writes that character so, but not where the backslash is itself one that
// was escaped.
func withoutLast(code string) string {
	if !strings.Contains(code, lastEscape) {
		return code
	}
	var b strings.Builder
	for i := 0; i < len(code); {
		size := 1
		switch {
		case strings.HasPrefix(code[i:], lastEscape):
			b.WriteString(lastPair)
			i += len(lastEscape)
			continue
		case code[i] == '\\':
			size = min(2, len(code)-i)
		}
		b.WriteString(code[i : i+size])
		i += size
	}
	return b.String()
}

// errors are what esbuild said.
func (t *tree) errors(list []api.Message) []frame.Refusal {
	var found []frame.Refusal
	for _, m := range list {
		line, column := 1, 1
		if m.Location != nil {
			// Here a column counts bytes, from zero, of the text in its wrapper.
			line, column = t.places.inSource(t.places.lines.offset(m.Location.Line, m.Location.Column+1))
		}
		found = append(found, frame.Refusal{Line: max(line, 1), Column: max(column, 1), Message: strings.TrimSuffix(m.Text, ":")})
	}
	return found
}

// adopt moves the helpers that esbuild puts before the code into the function that is
// the script, so that the program is exactly that function. It is false for any
// other shape.
func (t *tree) adopt() bool {
	body := t.program.Body
	if len(body) == 0 {
		return false
	}
	last := len(body) - 1
	t.script = wrapper(body[last:])
	if t.script == nil {
		return false
	}
	for _, s := range body[:last] {
		if !isHelper(s) {
			return false
		}
	}
	t.returnLast()
	t.script.Body.List = append(body[:last:last], t.script.Body.List...)
	t.script.DeclarationList = append(t.program.DeclarationList, t.script.DeclarationList...)
	t.program.Body, t.program.DeclarationList = body[last:], nil
	return true
}

// isHelper reports whether a statement declares nothing but helpers of esbuild.
func isHelper(s ast.Statement) bool {
	v, ok := s.(*ast.VariableStatement)
	if !ok {
		return false
	}
	for _, b := range v.List {
		if name, ok := b.Target.(*ast.Identifier); !ok || !strings.HasPrefix(name.Name.String(), "__") {
			return false
		}
	}
	return true
}
