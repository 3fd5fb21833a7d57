package gate_test

import (
	"bufio"
	"encoding/json"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"pgregory.net/rapid"

	"github.com/kimbap-run/kimbap/runtime/sandbox/gate"
)

// TestMain gives all of these tests half the stack that a worker has: what nests so
// deep that a parser or a compiler needs more ends them.
func TestMain(m *testing.M) {
	debug.SetMaxStack(32 << 20)
	os.Exit(m.Run())
}

// FuzzCheck gives the gate any text. What it accepts must be one async function, to an
// engine that runs it too: running the program only makes the function, and no
// code of the text runs by that.
func FuzzCheck(f *testing.F) {
	for _, c := range refused {
		f.Add(c.source)
	}
	for _, source := range passing {
		f.Add(source)
	}
	for _, c := range manifests {
		f.Add(c.source)
	}
	f.Fuzz(func(t *testing.T, source string) { oneFunction(t, source) })
}

// fataler is what a test and a check of rapid have in common.
type fataler interface{ Fatalf(string, ...any) }

// oneFunction is what must hold for every source. The text of what was accepted is read
// as the gate reads: some patterns goja itself takes for no pattern.
func oneFunction(t fataler, source string) {
	p, refusals := gate.Check(source)
	if (p == nil) == (len(refusals) == 0) {
		t.Fatalf("a program %v, and %d refusals", p != nil, len(refusals))
	}
	for _, r := range refusals {
		if r.Line < 1 || r.Column < 1 || r.Message == "" {
			t.Fatalf("a refusal without place or words: %+v", r)
		}
	}
	if p == nil {
		return
	}
	rt := goja.New()
	before := len(rt.GlobalObject().GetOwnPropertyNames())
	v, err := rt.RunProgram(p.Code)
	if err != nil {
		t.Fatalf("the program is no expression: %v", err)
	}
	text := v.String()
	tree, err := gate.Read("(" + text + ")")
	if err != nil {
		t.Fatalf("what was accepted does not parse alone: %v", err)
	}
	e, ok := tree.Body[0].(*ast.ExpressionStatement)
	if !ok || len(tree.Body) != 1 {
		t.Fatalf("what was accepted is not one expression: %q", text)
	}
	if fn, ok := e.Expression.(*ast.FunctionLiteral); !ok || !fn.Async || fn.Generator || fn.Name != nil {
		t.Fatalf("what was accepted is no async function: %q", text)
	}
	if after := len(rt.GlobalObject().GetOwnPropertyNames()); after != before {
		t.Fatalf("making the function changed the global object")
	}
	again, _ := gate.Check(source)
	if again == nil || !reflect.DeepEqual(again.Checked(), p.Checked()) {
		t.Fatalf("a second look says otherwise")
	}
}

// Pieces of the sources of these tests, put together at random: near to what parses, and
// near to what must not.
func TestWhateverIsAcceptedIsOneFunction(t *testing.T) {
	all := slices.Clone(passing)
	for _, c := range refused {
		if len(c.source) < 1000 {
			all = append(all, c.source)
		}
	}
	all = append(all, "});", "(async function () {", "}", ")", "`", "${", "/", "'", "\n", "/*", "*/", "//", "<!--", "\u2028", "!", "++", ">", "as any", ": x", "?.")
	rapid.Check(t, func(r *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(1, 4).Draw(r, "pieces") {
			piece := rapid.SampledFrom(all).Draw(r, "piece")
			from := rapid.IntRange(0, len(piece)).Draw(r, "from")
			to := rapid.IntRange(from, len(piece)).Draw(r, "to")
			if rapid.Bool().Draw(r, "whole") {
				from, to = 0, len(piece)
			}
			b.WriteString(piece[from:to])
		}
		oneFunction(r, b.String())
	})
}

// The cases of package vm that are built from many repetitions are the deep ones.
func TestDeepSourcesDoNotExhaustTheStack(t *testing.T) {
	type escape struct {
		ID, Code, Unit string
		Times          int
		Rest           *escape
	}
	var text func(e *escape) string
	text = func(e *escape) string {
		if e == nil {
			return ""
		}
		return e.Code + strings.Repeat(e.Unit, e.Times) + text(e.Rest)
	}
	deep := 0
	for _, name := range []string{"../vm/testdata/escapes.jsonl", "../vm/testdata/more.jsonl"} {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var e escape
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Fatal(err)
			}
			if e.Times == 0 {
				continue
			}
			deep++
			source := text(&e)
			gate.Check(source)
			// As long as a source may be, and the longest that the scanner lets pass.
			for _, part := range []int{4, 16, 64} {
				e.Times = max(1, e.Times/part)
				gate.Check(text(&e))
			}
		}
	}
	if deep < 15 {
		t.Fatalf("only %d deep sources were found", deep)
	}
}

// A chain of every operator and every nesting, each as long as the scanner lets pass.
func TestTheLongestChainsThatPassFitTheStack(t *testing.T) {
	for _, c := range []struct{ before, unit, middle, close, after string }{
		{"return ", "(", "1", ")", ""}, {"return ", "[", "1", "]", ""}, {"return ", "{a:", "1", "}", ""}, {"return ", "`${", "1", "}`", ""},
		{"", "{", "", "}", ""}, {"", "if(1){", "", "}", ""}, {"return ", "(()=>", "1", ")", ""}, {"return ", "function(){return ", "1", "}", ""},
		{"return ", "!", "1", "", ""}, {"return ", "- ", "1", "", ""}, {"return ", "a=>", "1", "", ""}, {"return ", "1?1:", "1", "", ""}, {"return ", "1**", "1", "", ""},
		{"return ", "1+", "1", "", ""}, {"return ", "1>", "1", "", ""}, {"return ", "1>(", "1", ")", ""}, {"let a; return ", "a=", "1", "", ""}, {"return a", ".b", "", "", ""}, {"return a", "()", "", "", ""}, {"return a", "?.b", "", "", ""},
		{"", "if(1)", ";", "", ""}, {"", "for(;;)", ";", "", ""}, {"", "do ", ";", " while(0)", ""}, {"", "a:", ";", "", ""}, {"", "if(1);else ", ";", "", ""},
		{"let x: ", "A<", "B", ">", " = 1"}, {"let x: ", "keyof ", "B", "", " = 1"}, {"let x: ", "(", "B", ")", " = 1"}, {"let x: ", "A extends B ? C : ", "D", "", " = 1"},
		{"return ", "<any>", "1", "", ""}, {"return 1", " as any", "", "", ""}, {"let x: ", "{a:", "B", "}", " = 1"}, {"let x: ", "() => ", "B", "", " = 1"}, {"let x: A", "[]", "", "", " = 1"},
		{"class A ", "{ a = class ", "{}", "}", ""}, {"return ", "await ", "1", "", ""}, {"return ", "new ", "A", "", ""}, {"let [", "[", "a", "]", "] = []"}, {"return ", "a,", "1", "", ""},
	} {
		passed := 0
		for n := 60_000; n > 0; n = n * 3 / 4 {
			if n*(len(c.unit)+len(c.close)) > gate.MaxSource {
				continue
			}
			source := c.before + strings.Repeat(c.unit, n) + c.middle + strings.Repeat(c.close, n)
			if p, _ := gate.Check(source + c.after); p != nil {
				passed = n
				break
			}
		}
		if passed == 0 {
			t.Errorf("%q: no length of it passes", c.unit)
		}
	}
}
