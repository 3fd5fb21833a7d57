package openapi_test

import (
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// Any JSON value holds itself, as zod and pydantic write it.
func TestAValueThatHoldsItselfIsOne(t *testing.T) {
	const v = `{"$ref": "#/components/schemas/V"}`
	paths := withBody("post", "application/json", `{"type": "object", "required": ["v"], "properties": {"v": `+v+`, "list": {"type": "array", "items": `+v+`}}}`) +
		`}, "components": {"schemas": {"V": {"oneOf": [{"type": "string"}, {"type": "number"}, {"type": "array", "items": ` + v + `}, {"type": "object", "additionalProperties": ` + v + `}]}}`
	b, _ := built(t, paths, "it", runtime.Args{"list": []any{"a"}, "more": map[string]any{"v": []any{"b"}}})
	if got := string(b.Body); got != `{"list":["a"],"v":["b"]}` {
		t.Error(got)
	}
}
