package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// docs/errors.md is made from the lists themselves, so that it cannot lag
// behind: KIMBAP_UPDATE=1 go test ./cmd/kimbap -run ErrorsDocument writes it.
func TestErrorsDocument(t *testing.T) {
	const file = "../../docs/errors.md"
	want := errorsDocument(t)
	if os.Getenv("KIMBAP_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Error("docs/errors.md is not what the code says; write it with: KIMBAP_UPDATE=1 go test ./cmd/kimbap -run ErrorsDocument")
	}
}

func TestEveryCodeHasAnExitCode(t *testing.T) {
	for _, code := range runtime.Codes() {
		if _, ok := exits[code]; !ok {
			t.Errorf("code %s has no exit code", code)
		}
	}
	if len(exits) != len(runtime.Codes()) {
		t.Errorf("%d exit codes for %d codes", len(exits), len(runtime.Codes()))
	}
}

func errorsDocument(t *testing.T) string {
	meaning := constants(t, "../../runtime/errors.go")
	var b strings.Builder
	b.WriteString("# Errors\n\nA refusal is `application/problem+json` (RFC 9457) with these codes; the same\ntext stands in the `Kimbap-Error` header. Commands exit with the code on the\nright. This page is made from the code.\n\n")
	b.WriteString("| code | meaning | HTTP status | exit code |\n|---|---|---|---|\n")
	for _, code := range runtime.Codes() {
		if meaning[string(code)] == "" {
			t.Errorf("code %s has no comment in runtime/errors.go", code)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %d | %d |\n", code, meaning[string(code)], (&runtime.Error{Code: code}).Status(), exits[code])
	}
	b.WriteString("\n## Reasons\n\nThe finer cause, where there is one, in `reason`.\n\n| reason | meaning |\n|---|---|\n")
	reasons := constants(t, "../../runtime/reason.go")
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		if reasons[name] == "" {
			t.Errorf("reason %s has no comment in runtime/reason.go", name)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, reasons[name])
	}
	return b.String()
}

// constants reads the string constants of a file with their line comments.
func constants(t *testing.T, file string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			value, _ := strconv.Unquote(literal.Value)
			out[value] = strings.TrimSpace(spec.Comment.Text())
		}
		return true
	})
	if len(out) == 0 {
		t.Fatalf("%s has no constants", file)
	}
	return out
}

// A guarantee without a test is a wish: every test that SECURITY.md names must
// be there.
func TestSecurityNamesItsTests(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(source, -1) {
			have[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 30 {
		t.Errorf("SECURITY.md names %d tests only", len(named))
	}
	for _, n := range named {
		if !have[n[1]] {
			t.Errorf("SECURITY.md names %s, which is not there", n[1])
		}
	}
}
