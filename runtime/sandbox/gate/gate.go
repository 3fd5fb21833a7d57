// Package gate decides whether the text of a script may run at all, before any of
// it runs, and turns it into the one function that the engine calls.
//
// The gate reads the text four times, each time knowing more. [scan] cuts it into
// tokens without recursion and refuses what would nest too deep for a parser.
// [parse] wraps it into one async function and parses it, with goja, and where
// goja cannot read it (TypeScript, newer syntax), or would read types that are passed as
// comparisons, with esbuild first. [inspect] walks the tree and refuses, with its place,
// every way out that has a name: module syntax, eval, Function, free names of other
// platforms, constructor chains. It knows scopes: a script's own function called process
// is ordinary code. A node that the walk does not know is refused. Last, the tree must be
// exactly one async function expression; that function is compiled in strict mode.
//
// The gate is pure: no files, no clock, nothing of the process. It is not the wall: a
// key that is computed while the script runs is seen by no gate. The engine
// (package vm) removes what such a key could reach, and the worker process limits it.
//
// Start reading at [Check].
package gate

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dop251/goja"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// MaxSource is the length of the longest source, in bytes.
const MaxSource = 64 << 10

// FileName is the name of a script in stack traces.
const FileName = "script"

// maxRefusals is how many refusals one check reports.
const maxRefusals = 20

// Program is a source that passed. It may be run more than once, and at the same time.
type Program struct {
	// Code evaluates to one async function without parameters, which is the script.
	Code *goja.Program
	// Tools are the constant paths of tools that the source names, sorted, as
	// written: github.listPullRequests.
	Tools []string
	// Dynamic says that the source also uses paths that only running it shows.
	Dynamic bool
	// TypeScript says that the source was rewritten before it was parsed.
	TypeScript bool

	globals map[string]bool
	places  places
}

// Uses reports whether the source names a global as such. Nothing can reach a
// global that it does not name: there is no eval and no globalThis.
func (p *Program) Uses(global string) bool { return p.globals[global] }

// Mentions reports whether the source has a word anywhere, if only inside a text.
func (p *Program) Mentions(word string) bool { return strings.Contains(p.places.user.code(), word) }

// Place is where in the source, as it was given, a place in the running code lies.
// Lines and columns count from one; columns of the running code are bytes (as goja
// counts), those of the source are characters. Zeros are a place that the source
// does not have.
func (p *Program) Place(line, column int) (int, int) { return p.places.of(line, column) }

// Checked is what a worker says of a source.
func (p *Program) Checked() frame.Checked {
	return frame.Checked{Tools: p.Tools, Dynamic: p.Dynamic, TypeScript: p.TypeScript}
}

// Check says whether a source may run. It returns the program, or the refusals, at
// least one, in the order of their places.
func Check(source string) (*Program, []frame.Refusal) {
	unlimited()
	u := unwrap(source)
	tokens, refusals := scan(u)
	if len(refusals) > 0 {
		return nil, ordered(refusals)
	}
	tree, refusals := parse(u, tokens)
	if len(refusals) > 0 {
		return nil, ordered(refusals)
	}
	p, compiles, refusals := tree.pass()
	if p == nil && !compiles && !tree.lowered {
		// goja parses some syntax that it cannot compile: async generators.
		switch other, found := lower(u, opening, closer, false); {
		case other != nil:
			p, _, refusals = other.pass()
		case strings.HasSuffix(refusals[0].Message, "not supported yet"): // but for what esbuild found wrong
			refusals = found
		}
	}
	return p, ordered(refusals)
}

// pass walks and compiles a tree. compiles is false when it was the compiler that refused.
func (t *tree) pass() (p *Program, compiles bool, refusals []frame.Refusal) {
	found := inspect(t)
	if len(found.refusals) > 0 {
		return nil, true, found.refusals
	}
	for _, c := range found.catches {
		watch(c)
	}
	for _, e := range found.iterated {
		guard(e)
	}
	code, refusals := t.compile()
	if len(refusals) > 0 {
		return nil, false, refusals
	}
	return &Program{
		Code: code, Tools: found.tools, Dynamic: found.dynamic, TypeScript: t.lowered,
		globals: found.globals, places: t.places,
	}, true, nil
}

// ordered sorts refusals by place, without repetitions, and keeps the first of them.
func ordered(list []frame.Refusal) []frame.Refusal {
	slices.SortStableFunc(list, func(a, b frame.Refusal) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	list = slices.Compact(list)
	return list[:min(len(list), maxRefusals)]
}
