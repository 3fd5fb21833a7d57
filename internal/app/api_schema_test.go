package app_test

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// description is the OpenAPI document that a server gives, with every schema in it
// compiled, which fails for one that is no JSON Schema.
type description struct {
	document map[string]any
	schemas  *jsonschema.Compiler
}

const describedAt = "https://kimbap.test/openapi.json"

func describedBy(t *testing.T, c *api) *description {
	t.Helper()
	text := c.ask(t, "", "GET", "/openapi.json", "").Body
	d := &description{schemas: jsonschema.NewCompiler()}
	parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	d.document = parsed.(map[string]any)
	strict, _ := jsonschema.UnmarshalJSON(strings.NewReader(text))
	closed(strict)
	if err := d.schemas.AddResource(describedAt, strict); err != nil {
		t.Fatal(err)
	}
	return d
}

// closed has each schema with members refuse others: what an answer has beside them was not
// described.
func closed(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, object := v["properties"].(map[string]any); object && v["additionalProperties"] == nil {
			v["unevaluatedProperties"] = false
		}
		for _, inner := range v {
			closed(inner)
		}
	case []any:
		for _, inner := range v {
			closed(inner)
		}
	}
}

// at follows a pointer: its parts, unescaped.
func (d *description) at(parts ...string) any {
	here := any(d.document)
	for _, part := range parts {
		object, _ := here.(map[string]any)
		here = object[part]
	}
	return here
}

// resolved follows a $ref of the document, if there is one.
func (d *description) resolved(v any) map[string]any {
	object, _ := v.(map[string]any)
	if ref, ok := object["$ref"].(string); ok {
		object, _ = d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...).(map[string]any)
	}
	return object
}

// pointer is where a place of the document is, as a URL.
func pointer(parts ...string) string {
	for i, part := range parts {
		parts[i] = strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(part)
	}
	return describedAt + "#/" + strings.Join(parts, "/")
}

// answers says how what was answered differs from what the document says of it.
func (d *description) answers(page string, got heard) error {
	method, path, _ := strings.Cut(page, " ")
	where := []string{"paths", path, strings.ToLower(method), "responses"}
	all, _ := d.at(where...).(map[string]any)
	code := strconv.Itoa(got.Status)
	if all[code] == nil {
		code = "default"
	}
	response, _ := all[code].(map[string]any)
	if response == nil {
		return fmt.Errorf("the status %d is not described", got.Status)
	}
	where = append(where, code)
	if ref, ok := response["$ref"].(string); ok {
		where = strings.Split(strings.TrimPrefix(ref, "#/"), "/")
	}
	if code == "default" && got.Status < 400 {
		return fmt.Errorf("the status %d is not described", got.Status)
	}
	if err := d.fields(response, got.Header); err != nil {
		return err
	}
	content, _ := d.resolved(response)["content"].(map[string]any)
	if content == nil && got.Body != "" {
		return fmt.Errorf("a %d has a body, which is not described", got.Status)
	}
	if content == nil {
		return nil
	}
	media, _, err := mime.ParseMediaType(got.Header.Get("Content-Type"))
	if err != nil || content[media] == nil {
		return fmt.Errorf("a %d is %q, which is not described", got.Status, got.Header.Get("Content-Type"))
	}
	if !strings.HasSuffix(media, "json") {
		return nil
	}
	schema, err := d.schemas.Compile(pointer(append(where, "content", media, "schema")...))
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(got.Body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// fields says which header field of an answer is not described: neither with it, nor for all
// at the beginning.
func (d *description) fields(response map[string]any, has http.Header) error {
	described, _ := d.resolved(response)["headers"].(map[string]any)
	about, _ := d.at("info", "description").(string)
	for name := range has {
		said := slices.Contains([]string{"Content-Type", "Content-Length", "Date"}, name) || strings.Contains(about, name)
		for one := range described {
			said = said || http.CanonicalHeaderKey(one) == name
		}
		if !said {
			return fmt.Errorf("the header field %s is not described", name)
		}
	}
	return nil
}

// each calls f with every operation of the document: "GET /v1/actions".
func (d *description) each(f func(page string, operation map[string]any)) {
	for path, methods := range d.at("paths").(map[string]any) {
		for method, operation := range methods.(map[string]any) {
			f(strings.ToUpper(method)+" "+path, operation.(map[string]any))
		}
	}
}

// The document is sound by itself: every reference leads somewhere, every schema is
// one, names of operations are theirs alone, and what stands in a path is a parameter.
func TestTheDescriptionIsSound(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Config: "policy: {source: api}\n"})
	d := describedBy(t, newAPI(t, k))
	if v, _ := d.at("openapi").(string); !strings.HasPrefix(v, "3.1.") || d.at("info", "title") == nil || d.at("info", "version") == nil {
		t.Errorf("it begins with openapi %q, info %v", v, d.at("info"))
	}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok && d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...) == nil {
				t.Errorf("%s: nothing is at %s", at, ref)
			}
			for name, inner := range v {
				walk(at+"/"+name, inner)
			}
		case []any:
			for i, inner := range v {
				walk(at+"/"+strconv.Itoa(i), inner)
			}
		}
	}
	walk("", d.document)
	for name := range d.at("components", "schemas").(map[string]any) {
		if _, err := d.schemas.Compile(pointer("components", "schemas", name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	names := map[string]string{}
	d.each(func(page string, operation map[string]any) {
		id, _ := operation["operationId"].(string)
		if id == "" || names[id] != "" {
			t.Errorf("%s: operationId %q, also of %q", page, id, names[id])
		}
		names[id] = page
		d.checkParameters(t, page, operation)
		responses, _ := operation["responses"].(map[string]any)
		if len(responses) == 0 {
			t.Errorf("%s: no answer is described", page)
		}
		for code, r := range responses {
			if d.resolved(r)["description"] == nil {
				t.Errorf("%s: %s has no description", page, code)
			}
		}
	})
}

// checkParameters compares the parameters of an operation with its path.
func (d *description) checkParameters(t *testing.T, page string, operation map[string]any) {
	t.Helper()
	var inPath []string
	seen := map[string]bool{}
	list, _ := operation["parameters"].([]any)
	for _, p := range list {
		parameter := d.resolved(p)
		name, _ := parameter["name"].(string)
		in, _ := parameter["in"].(string)
		if !slices.Contains([]string{"path", "query", "header"}, in) || seen[in+" "+name] || parameter["schema"] == nil {
			t.Errorf("%s: parameter %q in %q", page, name, in)
		}
		seen[in+" "+name] = true
		if in == "path" {
			inPath = append(inPath, name)
			if parameter["required"] != true {
				t.Errorf("%s: %s stands in the path and is not required", page, name)
			}
		}
	}
	var holes []string
	for _, found := range regexp.MustCompile(`\{([^}]+)\}`).FindAllStringSubmatch(page, -1) {
		holes = append(holes, found[1])
	}
	slices.Sort(inPath)
	slices.Sort(holes)
	if !slices.Equal(inPath, holes) {
		t.Errorf("%s: its path has %v, described are %v", page, holes, inPath)
	}
}

// What the pages answer is what their description says, in status, media type and
// schema, for what goes well and for refusals.
func TestAnswersAreAsDescribed(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Config: "policy: {source: api}\n", Scripts: apptest.Worker(t)})
	c := newAPI(t, k)
	d := describedBy(t, c)
	admin, _ := tokenOf(t, k, app.TokenGrant{Agent: "chief", Roles: []string{runtime.RoleAdmin}})
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	held := func(id int) string {
		return c.ask(t, agent, "POST", "/v1/actions/notes/delete-note:execute", fmt.Sprintf(`{"input":{"id":%d}}`, id)).problem(t).ApprovalID
	}
	first, second := held(1), held(2)
	asked := map[string]bool{}
	ask := func(page, target, token, body string, want int, headers ...string) heard {
		t.Helper()
		asked[page] = true
		method, _, _ := strings.Cut(page, " ")
		got := c.ask(t, token, method, target, body, headers...)
		if err := d.answers(page, got); err != nil || got.Status != want {
			t.Errorf("%s %s: %d, want %d: %v\n%.500s", method, target, got.Status, want, err, got.Body)
		}
		return got
	}
	execute := "POST /v1/actions/{service}/{action}:execute"
	ask(execute, "/v1/actions/notes/get-note:execute", agent, `{"input":{"id":1}}`, 200)
	ask(execute, "/v1/actions/notes/get-note:execute", agent, `{"input":{"id":1},"dry_run":true}`, 200)
	ask(execute, "/v1/actions/notes/get-note:execute", agent, `{"input":{"id":1},"raw":true}`, 200)
	ask(execute, "/v1/actions/notes/get-note:execute", agent, `{"input":{"id":"x"}}`, 400)
	ask(execute, "/v1/actions/notes/delete-note:execute", agent, `{"input":{"id":3}}`, 403)
	for range 2 { // the second time it is told again
		ask(execute, "/v1/actions/notes/create-note:execute", agent, `{"input":{"text":"x"}}`, 200, "Idempotency-Key", "k")
	}
	ask(execute, "/v1/actions/notes/none:execute", agent, `{"input":{}}`, 404)
	ask(execute, "/v1/actions/notes/get-note:execute", "", `{}`, 401)
	for _, list := range []string{"/v1/tools/search", "/v1/tools/advice", "/v1/services", "/v1/actions", "/v1/tools", "/v1/approvals", "/v1/standing", "/v1/audit", "/v1/tokens", "/v1/vault"} {
		ask("GET "+list, list, admin, "", 200)
		ask("GET "+list, list+"?nothing=1", admin, "", 400)
	}
	ask("GET /v1/tools/search", "/v1/tools/search?query=note&limit=1", agent, "", 200)
	ask("GET /v1/tools/search", "/v1/tools/search?limit=none", agent, "", 400)
	ask("GET /v1/tools/advice", "/v1/tools/advice?name=notes", agent, "", 200)
	ask("GET /v1/tools/advice", "/v1/tools/advice?name=nothing", agent, "", 404)
	ask("GET /v1/actions/{service}/{action}", "/v1/actions/notes/get-note", agent, "", 200)
	ask("GET /v1/approvals/{id}", "/v1/approvals/"+first, agent, "", 200)
	ask("GET /v1/approvals/{id}", "/v1/approvals/apr_none", agent, "", 404)
	ask("POST /v1/approvals/{id}:result", "/v1/approvals/"+first+":result", agent, "", 403)
	ask("POST /v1/approvals/{id}:accept", "/v1/approvals/"+first+":accept", agent, "", 403)
	ask("POST /v1/approvals/{id}:accept", "/v1/approvals/"+first+":accept", admin, "", 200)
	allowed := held(4)
	ask("POST /v1/approvals/{id}:accept", "/v1/approvals/"+allowed+":accept", admin, `{"for":"1m"}`, 200)
	ask("GET /v1/standing", "/v1/standing", admin, "", 200)
	ask("POST /v1/approvals/{id}:revoke", "/v1/approvals/"+allowed+":revoke", admin, "", 200)
	ask("POST /v1/approvals/{id}:revoke", "/v1/approvals/"+allowed+":revoke", admin, "", 404)
	ask("POST /v1/approvals/{id}:reject", "/v1/approvals/"+second+":reject", admin, `{"reason":"no"}`, 200)
	var made struct{ ID string }
	_ = json.Unmarshal([]byte(ask("POST /v1/tokens", "/v1/tokens", admin, `{"agent":"x","scopes":["notes.*"],"ttl":"1m"}`, 201).Body), &made)
	ask("DELETE /v1/tokens/{id}", "/v1/tokens/"+made.ID, admin, "", 204)
	ask("PUT /v1/vault/{name}", "/v1/vault/spare", admin, `{"value":"spare-value-1234","hosts":["api.notes.test:443"]}`, 200)
	ask("DELETE /v1/vault/{name}", "/v1/vault/spare", admin, "", 204)
	tag := ask("GET /v1/policy", "/v1/policy", admin, "", 200).Header.Get("ETag")
	ask("GET /v1/policy", "/v1/policy", admin, "", 304, "If-None-Match", tag)
	ask("PUT /v1/policy", "/v1/policy", admin, "version: 1\n", 204, "Content-Type", "application/yaml", "If-Match", tag)
	ask("PUT /v1/policy", "/v1/policy", admin, "version: 1\n", 412, "Content-Type", "application/yaml", "If-Match", `"old"`)
	for _, page := range []string{"/healthz", "/readyz", "/openapi.json", "/v1/openapi.json", "/metrics"} {
		ask("GET "+page, page, admin, "", 200)
	}
	ask("GET /v1/exec/{id}", "/v1/exec/exe_none", agent, "", 404)
	ask("POST /v1/exec", "/v1/exec", agent, `{"code":""}`, 400)
	ask("POST /v1/exec/{id}/resume", "/v1/exec/exe_none/resume", agent, "", 404)
	d.each(func(page string, _ map[string]any) {
		if !asked[page] {
			t.Errorf("%s was not asked for", page)
		}
	})
}

// What the page refuses of a body whatever there is here, its schema refuses too, and what the
// page takes, that takes: who makes requests of the description makes good ones.
func TestBodiesAreAsDescribed(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c := &api{k.ServeAPI(t, app.APIOptions{Proxy: true}), newAPI(t, k).client}
	d := describedBy(t, c)
	admin, _ := tokenOf(t, k, app.TokenGrant{Roles: []string{runtime.RoleAdmin, runtime.RoleOperator}})
	const call = "POST /v1/actions/{service}/{action}:execute"
	for page, bodies := range map[string][]string{
		"POST /v1/exec": {`{}`, `{"code":""}`, `{"code":"return 1","allow":[]}`, `{"code":"return 1","timeoutMs":-1}`},
		call: {
			`{"input":{"id":1},"wait":""}`, `{"input":{"id":1},"wait":"1d"}`, `{"input":{"id":1},"wait":"-1s"}`, `{"input":{"id":1},"wait":3601}`, `{"input":{"id":1},"wait":-1}`,
			`{"input":{"id":1},"wait":"1"}`, `{"input":{"id":1},"max":-1}`, `{"input":[]}`, `{"inputs":{}}`,
			`{"input":{"id":1},"wait":"0"}`, `{"input":{"id":1},"wait":"1m1.5s"}`, `{"input":{"id":1},"wait":3600}`, `{"input":{"id":1},"wait":".5h"}`,
			`{"input":{"id":1},"max":0.0}`, `{"input":{"id":1},"max":0.5}`,
		},
		"POST /v1/tokens": {
			`{"agent":"","scopes":["*"]}`, `{"agent":"x","scopes":[]}`, `{"agent":"x"}`, `{"agent":"x","scopes":["*"],"ttl":"soon"}`, `{"agent":"x","scopes":["*"],"ttl":0}`,
			`{"agent":"x","scopes":["*"],"ttl":-1}`, `{"agent":"x","scopes":["*"],"ttl":60}`, `{"agent":"x","scopes":["*"],"ttl":"1m"}`,
		},
		"POST /v1/proxy/tokens": {`{"agent":""}`, `{"agent":"x"}`},
		"PUT /v1/vault/{name}":  {`{"value":"","hosts":["api.notes.test:443"]}`, `{"value":"a-value-1234","hosts":["api.notes.test:443"]}`},
	} {
		method, path, _ := strings.Cut(page, " ")
		schema, err := d.schemas.Compile(pointer("paths", path, strings.ToLower(method), "requestBody", "content", "application/json", "schema"))
		if err != nil {
			t.Fatal(err)
		}
		target := strings.NewReplacer("{service}", "notes", "{action}", "get-note", "{name}", "spare").Replace(path)
		for _, body := range bodies {
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			got, refuses := c.ask(t, admin, method, target, body), schema.Validate(value)
			if got.Status >= 500 || (got.Status >= 400) != (refuses != nil) {
				t.Errorf("%s %s: %d %.200s; the schema says %v", page, body, got.Status, got.Body, refuses)
			}
		}
	}
}
