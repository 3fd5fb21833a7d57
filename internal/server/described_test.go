package server

import (
	"context"
	"encoding/json"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// operation is one of the document.
type operation struct {
	Role       string `json:"x-kimbap-role"`
	Parameters []map[string]any
	Body       *struct {
		Content map[string]struct{ Schema map[string]any }
	} `json:"requestBody"`
	Responses map[string]map[string]any
}

// document is the description of all pages there can be.
type document struct {
	whole map[string]any
	Paths map[string]map[string]operation
}

func parsed(t *testing.T) *document {
	t.Helper()
	d := &document{}
	if err := json.Unmarshal(openapi, &d.whole); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(openapi, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// resolved follows a $ref.
func (d *document) resolved(v map[string]any) map[string]any {
	ref, is := v["$ref"].(string)
	if !is {
		return v
	}
	here := any(d.whole)
	for _, part := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		here, _ = here.(map[string]any)[part]
	}
	return here.(map[string]any)
}

// parameters are the names of those of an operation that stand in a place.
func (d *document) parameters(o operation, in string) []string {
	var out []string
	for _, p := range o.Parameters {
		if p = d.resolved(p); p["in"] == in {
			out = append(out, p["name"].(string))
		}
	}
	return out
}

// members are the names of the properties of a schema, with those that it has by allOf.
func (d *document) members(schema map[string]any) []string {
	schema = d.resolved(schema)
	properties, _ := schema["properties"].(map[string]any)
	out := slices.Collect(maps.Keys(properties))
	all, _ := schema["allOf"].([]any)
	for _, part := range all {
		out = append(out, d.members(part.(map[string]any))...)
	}
	return out
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}

// everyPage asks for each page of the document, of an API and of a daemon, as somebody with
// these roles. The query is appended, and the body sent where a page could take one.
func everyPage(t *testing.T, roles []string, query, body string, f func(page string, o operation, status int, p runtime.Problem)) {
	t.Helper()
	d := parsed(t)
	metrics, err := NewMetrics(Gauges{AuditLag: func() float64 { return 0 }, VaultLocked: func() bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	for _, o := range []Options{
		{Agent: nobody{}, Operator: nobody{}, Lender: nobody{}, Metrics: metrics, RequireToken: true}, {Agent: nobody{}, Shutdown: func() {}},
	} {
		client, base := serve(t, o.RequireToken, o, func(s *Server) {
			s.o.Identify = func(context.Context, runtime.Caller) (runtime.Principal, error) {
				return runtime.Principal{ID: "x", TokenID: "x", Tenant: runtime.DefaultTenant, Roles: roles}, nil
			}
		})
		var shown document
		_, text := ask(t, client, "GET", base+"/v1/openapi.json", "")
		if err := json.Unmarshal([]byte(text), &shown); err != nil {
			t.Fatal(err)
		}
		for path, methods := range shown.Paths {
			for method := range methods {
				method = strings.ToUpper(method)
				asked[method+" "+path] = true
				target := base + strings.NewReplacer("{", "", "}", "").Replace(path)
				sent := body
				if method == "GET" || method == "DELETE" {
					sent = ""
				}
				status, text := ask(t, client, method, target+query, sent)
				var p runtime.Problem
				if status >= 400 {
					if err := json.Unmarshal([]byte(text), &p); err != nil {
						t.Fatalf("%s %s: %v", method, path, err)
					}
				}
				f(method+" "+path, d.Paths[path][strings.ToLower(method)], status, p)
			}
		}
	}
	for path, methods := range d.Paths {
		for method := range methods {
			if page := strings.ToUpper(method) + " " + path; !asked[page] {
				t.Errorf("%s was not asked for", page)
			}
		}
	}
}

var mighty = []string{runtime.RoleOperator, runtime.RoleAdmin}

// What a page takes in its query is what the document says, as the page itself tells it to
// somebody who sends another.
func TestTheQueryOfEachPageIsDescribed(t *testing.T) {
	d := parsed(t)
	everyPage(t, mighty, "?no_such=1", `{}`, func(page string, o operation, status int, p runtime.Problem) {
		var takes []string
		switch known, told := strings.CutPrefix(p.Hint, "known here: "); {
		case told:
			takes = strings.Split(known, ", ")
		case page == "PUT /v1/policy" || page == "POST /shutdown" || page == "GET /v1/proxy/connection" || status < 400:
		case p.Detail != "this page takes no query":
			t.Errorf("%s does not look at its query: %d %+v", page, status, p)
		}
		if said := d.parameters(o, "query"); !slices.Equal(sorted(takes), sorted(said)) {
			t.Errorf("%s takes %v, described are %v", page, takes, said)
		}
	})
}

// So it is with the members of its body.
func TestTheBodyOfEachPageIsDescribed(t *testing.T) {
	d := parsed(t)
	everyPage(t, mighty, "", `{"no such member":1}`, func(page string, o operation, status int, p runtime.Problem) {
		var takes, said []string
		if known, told := strings.CutPrefix(p.Hint, "the members here are: "); told {
			takes = strings.Split(known, ", ")
		}
		if o.Body != nil {
			for media, content := range o.Body.Content {
				if media == "application/json" {
					said = d.members(content.Schema)
				} else if p.Reason != runtime.ReasonUnsupportedMedia || !strings.HasSuffix(p.Hint, media) {
					t.Errorf("%s takes no %s: %d %+v", page, media, status, p)
				}
			}
		}
		if !slices.Equal(sorted(takes), sorted(said)) {
			t.Errorf("%s takes %v, described are %v", page, takes, said)
		}
	})
}

// And with the role that it needs.
func TestTheRoleOfEachPageIsDescribed(t *testing.T) {
	everyPage(t, nil, "?no_such=1", `{"no such member":1}`, func(page string, o operation, status int, p runtime.Problem) {
		needs := ""
		if p.Reason == runtime.ReasonNotOperator && page != "POST /shutdown" { // which is for those who show no token
			needs = p.Detail[strings.LastIndex(p.Detail, " ")+1:]
		}
		if needs != o.Role {
			t.Errorf("%s needs %q, described is %q: %d %+v", page, needs, o.Role, status, p)
		}
	})
}

// ofEvery are header fields of HTTP itself, and those that every answer has: the document says
// these once, at its beginning.
var ofEvery = map[string][]string{
	"Set": {"Content-Type", "Cache-Control", "X-Content-Type-Options", "X-Request-Id"},
	"Get": {"Authorization", "Content-Type", "Origin", "Sec-Fetch-Site", "Upgrade", "Connection"},
}

// Each header field that a page looks at or answers with is in the document, and nothing else.
func TestEachHeaderFieldIsDescribed(t *testing.T) {
	d := parsed(t)
	gives, takes := map[string]bool{}, map[string]bool{}
	for _, name := range []string{"Upgrade", "Kimbap-Unattended", "Vary"} { // written by hijacked, and by the handler of Prometheus
		gives[name] = true
	}
	fields(t, func(call, name string) {
		switch {
		case slices.Contains(ofEvery[call], name):
		case call == "Set":
			gives[name] = true
		default:
			takes[name] = true
		}
	})
	said, asked := map[string]bool{}, map[string]bool{}
	for _, methods := range d.Paths {
		for _, o := range methods {
			for _, name := range d.parameters(o, "header") {
				asked[name] = true
			}
			for _, r := range o.Responses {
				headers, _ := d.resolved(r)["headers"].(map[string]any)
				for name := range headers {
					said[http.CanonicalHeaderKey(name)] = true
				}
			}
		}
	}
	if !maps.Equal(gives, said) {
		t.Errorf("answers have %v, described are %v", gives, said)
	}
	if !maps.Equal(takes, asked) {
		t.Errorf("pages look at %v, described are %v", takes, asked)
	}
	about := d.whole["info"].(map[string]any)["description"].(string)
	for _, name := range ofEvery["Set"][1:] {
		if !strings.Contains(about, name) {
			t.Errorf("%s is not said of every answer", name)
		}
	}
}

// fields calls f with each header field that the code of this package gets or sets.
func fields(t *testing.T, f func(call, name string)) {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	inspect := func(f func(n ast.Node) bool) {
		for _, file := range files {
			ast.Inspect(file, f)
		}
	}
	constants := map[string]string{}
	text := func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			return constant.StringVal(constant.MakeFromLiteral(e.Value, e.Kind, 0))
		case *ast.Ident:
			return constants[e.Name]
		}
		return ""
	}
	inspect(func(n ast.Node) bool {
		if v, is := n.(*ast.ValueSpec); is && len(v.Values) == 1 {
			if lit, is := v.Values[0].(*ast.BasicLit); is && lit.Kind == token.STRING {
				constants[v.Names[0].Name] = text(lit)
			}
		}
		return true
	})
	inspect(func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is || len(call.Args) == 0 {
			return true
		}
		selector, is := call.Fun.(*ast.SelectorExpr)
		if !is {
			return true
		}
		of := ""
		switch x := selector.X.(type) {
		case *ast.CallExpr: // w.Header()
			if inner, is := x.Fun.(*ast.SelectorExpr); is {
				of = inner.Sel.Name
			}
		case *ast.SelectorExpr: // r.Header
			of = x.Sel.Name
		case *ast.Ident: // h := w.Header()
			of = map[string]string{"h": "Header"}[x.Name]
		}
		switch name := selector.Sel.Name; {
		case of != "Header":
		case name == "Set" || name == "Add":
			f("Set", http.CanonicalHeaderKey(text(call.Args[0])))
		case name == "Values" || name == "Get":
			if field := http.CanonicalHeaderKey(text(call.Args[0])); field != http.CanonicalHeaderKey(requestID) { // read back from the answer
				f("Get", field)
			}
		}
		return true
	})
}

// A refusal has the members that the document says.
func TestTheMembersOfAProblemAreDescribed(t *testing.T) {
	d := parsed(t)
	var has []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[problem]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			has = append(has, name)
		}
	}
	if said := d.members(map[string]any{"$ref": "#/components/schemas/Problem"}); !slices.Equal(sorted(has), sorted(said)) {
		t.Errorf("a problem has %v, described are %v", has, said)
	}
}

// Generators of clients make a type of each component, of all kinds in one room: with a name
// that is there twice, oapi-codegen makes no client.
func TestEachComponentHasItsOwnName(t *testing.T) {
	kinds := map[string]string{}
	for kind, components := range parsed(t).whole["components"].(map[string]any) {
		for name := range components.(map[string]any) {
			if other, is := kinds[name]; is {
				t.Errorf("%s is among the %s and the %s", name, kind, other)
			}
			kinds[name] = kind
		}
	}
}
