package openapi_test

import (
	"cmp"
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

// What stands beside the $ref of a path item are operations too: a POST that nobody saw was an
// ordinary write.
func TestOperationsBesideAReferenceAreSeen(t *testing.T) {
	for _, ref := range []string{"#/x/K", "parts.json#/K", "parts.json#/Other"} {
		doc := head + `"/keys": {"$ref": "` + ref + `", "post": {"operationId": "createKey"}, "summary": "Keys"}}, "x": {"K": {"get": {"operationId": "listKeys"}}}}`
		r, err := openapi.Import(openapi.Options{Document: "doc.json", Name: "x", Files: fstest.MapFS{"doc.json": {Data: []byte(doc)}, "parts.json": {Data: []byte(
			`{"Other": {"$ref": "#/K", "post": {"operationId": "hidden"}}, "K": {"get": {"operationId": "listKeys", "parameters": [{"$ref": "#/P"}]}, "put": {"operationId": "p"}}, "P": {"name": "page", "in": "query", "schema": {"type": "integer"}}}`)}}})
		if err != nil {
			t.Fatal(ref, err)
		}
		set := parse(t, r)
		if a := judged(t, set, "POST", "/keys"); a.Name != "create-key" || !a.GrantsAccess {
			t.Errorf("%s: POST /keys is %s\n%s", ref, a.Name, r.YAML)
		}
		a := judged(t, set, "GET", "/keys")
		if elsewhere := len(a.Params) == 1; a.Name != "list-keys" || a.Description != "Keys" || elsewhere != strings.HasPrefix(ref, "parts") {
			t.Errorf("%s: GET /keys is %s\n%s", ref, a.Name, r.YAML)
		}
	}
}

// Since 3.1 a $ref has members beside it, and a part of an allOf may say what another's are.
func TestWhatStandsBesideAReferenceCounts(t *testing.T) {
	const schema = `{"type": "object", "required": ["id", "n"], "properties": {"id": {"$ref": "#/components/schemas/Id", "readOnly": true}, "n": {"type": "string"},
		"m": {"$ref": "#/components/schemas/Mode", "default": "x", "description": "How"}, "k": {"$ref": "#/components/schemas/Far", "description": "Far"}}}`
	for version, want := range map[string]string{"3.1.0": "k=Far (default: far) m=How (default: x) n!=", "3.0.0": "id!= k=(default: far) m= n!="} {
		r, err := one(t, strings.Replace(head, "3.0.0", version, 1)+withBody("post", "application/json", schema)+`}, "components": {"schemas": {"Id": {"type": "string"},
			"Mode": {"type": "string", "pattern": "^[a-z]+$"}, "Far": {"$ref": "#/components/schemas/Near", "default": "far"}, "Near": {"type": "string", "default": "far"}}}}`, openapi.Options{Name: "x"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range parse(t, r).Services()[0].Actions[0].Params {
			mark := map[bool]string{true: "!="}[p.Required]
			got = append(got, p.Name+cmp.Or(mark, "=")+p.Description)
		}
		if said := strings.Join(got, " "); said != want {
			t.Errorf("%s: %s, want %s\n%s", version, said, want, r.YAML)
		}
	}
	r, err := one(t, head+withBody("post", "application/json", `{"allOf": [{"$ref": "#/x/B"}, {"required": ["a"]}, {"allOf": [{"required": ["c"]}]}]}`)+
		`}, "x": {"B": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "string"}}}}}`, openapi.Options{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parse(t, r).Services()[0].Actions[0].Params {
		if p.Required != (p.Name != "b") {
			t.Errorf("%s: required %t", p.Name, p.Required)
		}
	}
}
