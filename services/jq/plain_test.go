package jq_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/services/jq"
)

func TestPlain(t *testing.T) {
	for _, expression := range []string{
		".", ".a", ".a.b?", ".[0].x", ".[-1]", ".[1:3]", `."a b"`, `.["a"]`, ".a[]?", "[.list[] | {id, name: .user.login}]", "map({id, \"x\": .y})",
		"first(.next) // empty", "{a: null, b: true, c: \"text\", d: (.e, .f)}", "[]", "{}", "(", strings.Repeat("[", 100_000),
	} {
		if !jq.Plain(expression) {
			t.Errorf("%.60s is not plain", expression)
		}
	}
	for _, expression := range []string{
		"..", "length", "def map(f): [limit(9; repeat(f))]; map(.)", "def f: f; f", "reduce . as $i (0; 1)", ". as $x | $x", ". + .", ". == .", "-(.a)",
		`"\(.)"`, `."\(.)"`, `{"\(.)": 1}`, "{(.a): 1}", "{$__loc__}", "{$x}", ".[.a]", `.[("a" * 9):]`, ".[[1]]", ".a |= 1", "if . then 1 else 2 end", "try . catch .",
		"@json", "@base64 \"x\"", "tojson", "[range(9)]", "map(tojson)", "first(tojson)", "[tojson]", "{a: tojson}", ". | tojson", "(tojson)", "tojson | .a", ". // tojson", "$ENV",
		"label $out | .", "foreach . as $i (0; 1)", `import "a" as a; .`, `include "a"; .`, ".[(tojson)]", ".[1:tojson]", `"x" * 9`, "limit(1; .)", "[.[] as $x | .]",
	} {
		if jq.Plain(expression) {
			t.Errorf("%s is plain", expression)
		}
	}
}
