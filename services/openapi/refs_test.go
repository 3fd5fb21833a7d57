package openapi_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/kimbap-run/kimbap/services/openapi"
)

// Descriptions of many files say $ref wherever an object stands: for an operation, and for
// all security schemes at once.
func TestOperationsAndSchemesMayBeReferences(t *testing.T) {
	folder := fstest.MapFS{
		"doc.yaml": {Data: []byte(`{openapi: 3.0.0, servers: [{url: "https://x.test"}], security: [{key: []}], components: {securitySchemes: {$ref: "parts.yaml#/schemes"}},
			paths: {/keys: {post: {$ref: "parts.yaml#/create"}}, /things: {get: {$ref: "none.yaml"}}, /hooks: {post: {$ref: "none.yaml"}}}}`)},
		"parts.yaml": {Data: []byte(`{schemes: {key: {type: apiKey, in: header, name: X-Key}}, create: {operationId: makeKey, parameters: [{$ref: "#/name"}]}, name: {name: called, in: query, schema: {type: string}}}`)},
	}
	r, err := openapi.Import(openapi.Options{Files: folder, Document: "doc.yaml", Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n  make-key:\n", "- {name: called, type: string}\n", "header: {name: X-Key}", "\n  post-hooks:\n"} {
		if !strings.Contains(string(r.YAML), want) {
			t.Errorf("no %q in\n%s", want, r.YAML)
		}
	}
	if report := r.Report(); r.Imported != 1 || r.Total != 3 || len(r.Skipped) != 2 || strings.Contains(report, "note:") {
		t.Error(report)
	}
	parse(t, r)
}

// A scheme that cannot be read may be one that could be filled in.
func TestASchemeThatCannotBeReadIsNamed(t *testing.T) {
	for _, schemes := range []string{`{"$ref": "none.yaml"}`, `{"key": {"$ref": "none.yaml"}}`, `{}`} {
		r, err := one(t, head+`"/a": {"get": {}}}, "security": [{"key": []}], "components": {"securitySchemes": `+schemes+`}}`, openapi.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if report := r.Report(); !strings.Contains(report, `note: the security scheme "key" cannot be read: say it with --auth bearer, or correct auth: in the file`) {
			t.Errorf("%s: %s", schemes, report)
		}
	}
}

// What is left out because all of it stands elsewhere is said with its reasons.
func TestADocumentThatIsElsewhereSaysWhy(t *testing.T) {
	_, err := one(t, head+`"/keys": {"$ref": "keys.yaml"}, "/a": {"get": {"$ref": "a.yaml"}}}}`, openapi.Options{})
	if err == nil || !strings.Contains(err.Error(), `the file of a $ref cannot be read: "keys.yaml"`) || !strings.Contains(err.Error(), `the file of a $ref cannot be read: "a.yaml"`) {
		t.Error(err)
	}
}
