package openapi_test

import (
	"slices"
	"testing"

	"github.com/kimbap-run/kimbap/services/openapi"
)

// Controls in what a request is compared with are these, not blanks.
func TestPatternsAndValuesAreReadBackAsTheyAre(t *testing.T) {
	r, err := one(t, head+`"/a": {"get": {"summary": "one\u0007\ufefftwo", "parameters": [{"name": "delim", "in": "query", "schema": {"type": "string", "enum": [",", "\t", "\u0001\u007f\u0085", "\u2028\ufeff\ufffe"]}},
		{"name": "q", "in": "query", "schema": {"type": "string", "pattern": "^[^\n\t]+$"}}]}}}}`, openapi.Options{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	a := parse(t, r).Services()[0].Actions[0]
	if len(a.Params) != 2 {
		t.Fatalf("%s\n%s", r.Report(), r.YAML)
	}
	if want := []any{",", "\t", "\x01\x7f\u0085", "\u2028\ufeff\ufffe"}; !slices.Equal(a.Params[0].Enum, want) || a.Description != "one  two" {
		t.Errorf("%q %q", a.Params[0].Enum, a.Description)
	}
	if p := a.Params[1].Pattern; p == nil || p.MatchString("a\nb") || p.MatchString("\t") || !p.MatchString("a b") {
		t.Errorf("%v", p)
	}
}
