package export_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
	"github.com/kimbap-run/kimbap/services/export"
)

// docs/service.schema.json is what editors fetch:
// KIMBAP_UPDATE=1 go test ./services/export writes it.
func TestSchemaDocument(t *testing.T) {
	golden(t, filepath.Join("..", "..", "docs", "service.schema.json"), export.Schema())
}

func compiled(t *testing.T) (*jsonschema.Schema, map[string]any) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(export.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource(services.SchemaURL, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(services.SchemaURL)
	if err != nil {
		t.Fatal(err)
	}
	return s, doc.(map[string]any)
}

func value(t *testing.T, text []byte) any {
	t.Helper()
	v, err := services.YAMLValue(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSchemaTakesTheWholeCatalogue(t *testing.T) {
	s, _ := compiled(t)
	for _, name := range catalog.Names() {
		data, err := catalog.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(value(t, data)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSchemaRefusesWhatTheLoaderRefuses(t *testing.T) {
	s, _ := compiled(t)
	good, err := os.ReadFile("testdata/notes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{"name: team-notes", "name: Team Notes"}, {"version: 1.2.0", "version: one"}, {"version: 1.2.0\n", ""}, {"type: bearer", "type: magic"}, {"type: bearer", "type: oauth"},
		{"  list-notes:", "  List:"}, {"method: GET", "method: get"}, {"path: /notes", "path: notes"}, {"level: critical", "level: huge"},
		{"type: integer", "type: int"}, {"enum: [open, done]", "enum: []"}, {"idempotent: true", "idempotent: 2"},
		{"severity: low", "severity: none"}, {"minimum: 1", "minimum: one"}, {"credential_ref", "credential"},
	} {
		text := strings.Replace(string(good), change[0], change[1], 1)
		if text == string(good) {
			t.Fatalf("the file has no %q", change[0])
		}
		if _, err := services.Parse("notes.yaml", []byte(text)); err == nil {
			t.Errorf("%q: the loader takes it", change[1])
		}
		if err := s.Validate(value(t, []byte(text))); err == nil {
			t.Errorf("%q: the schema takes it", change[1])
		}
	}
}

// What docs/services.md leaves out of its examples an editor does not miss.
func TestSchemaMissesNoDescription(t *testing.T) {
	s, _ := compiled(t)
	for _, text := range []string{
		"name: notes\nversion: 1.0.0\nbase_url: https://notes.example.com\nactions: {read-note: {method: GET, path: /notes}}",
		"name: gh\nversion: 1.0.0\nadapter: command\ncommand_spec: {executable: gh}\nactions: {list-prs: {command: pr list}}",
		"name: notes\nversion: 1.0.0\nbase_url: https://notes.example.com\nactions: {drop: {method: POST, path: /notes, match: {body: {/owner: null}}}}",
	} {
		if _, err := services.Parse("x.yaml", []byte(text)); err != nil {
			t.Errorf("the loader: %v", err)
		}
		if err := s.Validate(value(t, []byte(text))); err != nil {
			t.Errorf("the schema: %v", err)
		}
	}
}

// The loader and the schema know the same fields in every object: an unknown one
// makes the loader list those it knows.
func TestSchemaAndLoaderKnowTheSameFields(t *testing.T) {
	_, doc := compiled(t)
	const odd = "qqqqqqqqqqqq: 1"
	action := `{` + odd + `, description: x, method: POST, path: /a, idempotent: true, risk: {` + odd + `}, args: [{` + odd + `, name: b}], request: {` + odd + `},
		match: {` + odd + `, graphql: {` + odd + `}, jsonrpc: {` + odd + `, method: m}}, response: {` + odd + `}, pagination: {` + odd + `, type: link}, retry: {` + odd + `},
		errors: {404: {` + odd + `}}}`
	files := []string{odd + "\nvars: {v: {" + odd + "}}\ntriggers: {" + odd + "}\ngotchas: [{" + odd + "}]\nrecipes: [{" + odd + "}]\nactions: {act: " + action + "}"}
	for _, typ := range []string{"header", "query", "body", "path", "basic", "oauth2"} {
		files = append(files, "auth: {"+odd+", type: "+typ+", credential_ref: r, "+typ+": {"+odd+"}}")
	}
	files = append(files, "adapter: command\ncommand_spec: {"+odd+"}\nactions: {act: {command: x}}",
		"adapter: applescript\ntarget_app: Notes\nactions: {act: {inline_script: {"+odd+"}}}")
	seen := map[string][]string{}
	for _, text := range files {
		_, err := services.Parse("x.yaml", []byte(text))
		var problems services.Problems
		if !errors.As(err, &problems) {
			t.Fatal(err)
		}
		for _, p := range problems {
			what, found := strings.CutSuffix(p.Msg, ` has no field "qqqqqqqqqqqq"`)
			fields, ok := strings.CutPrefix(p.Fix, "the fields here are: ")
			if found && ok {
				seen[what] = strings.Split(fields, ", ")
			}
		}
	}
	places := map[string]string{
		"service": "", "vars.v": "properties/vars/additionalProperties", "triggers": "properties/triggers", "gotcha": "properties/gotchas/items",
		"recipe": "properties/recipes/items", "act": "$defs/action", "act.risk": "$defs/action/properties/risk", "act.args": "$defs/arg",
		"act.request": "$defs/request", "act.match": "$defs/match", "act.match.graphql": "$defs/match/properties/graphql",
		"act.match.jsonrpc": "$defs/match/properties/jsonrpc", "act.response": "$defs/action/properties/response",
		"act.pagination": "$defs/action/properties/pagination", "act.retry": "$defs/action/properties/retry",
		"act.errors.404": "$defs/action/properties/errors/additionalProperties", "auth": "$defs/auth", "auth.header": "$defs/auth/properties/header",
		"command_spec": "$defs/command_spec", "act.inline_script": "$defs/action/properties/inline_script",
		"auth.query": "$defs/auth/properties/query", "auth.body": "$defs/auth/properties/body", "auth.path": "$defs/auth/properties/path", "auth.basic": "$defs/auth/properties/basic",
		"auth.oauth2": "$defs/auth/properties/oauth2",
	}
	for what, place := range places {
		at := doc
		for token := range strings.SplitSeq(place, "/") {
			if token != "" {
				at, _ = at[token].(map[string]any)
			}
		}
		properties, _ := at["properties"].(map[string]any)
		known := slices.Sorted(maps.Keys(properties))
		loads := slices.Sorted(slices.Values(seen[what]))
		if !slices.Equal(known, loads) {
			t.Errorf("%s: the schema knows %v, the loader %v", what, known, loads)
		}
	}
	for what := range seen {
		if _, ok := places[what]; !ok {
			t.Errorf("the loader knows the object %s, and this test does not", what)
		}
	}
}
