package catalog_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// Every action makes a request that is recognised as the same action with the
// same arguments, on every host and by every method that it has.
func TestEveryActionIsFoundAgain(t *testing.T) {
	set := load(t)
	for _, s := range overHTTP(set) {
		for _, a := range s.Actions {
			if catchAll(a) {
				continue
			}
			args := sample(a)
			if empty := cleared(a, args); empty != nil {
				again(t, set, a, a.HTTP.Authorities[0], empty)
			}
			for _, authority := range a.HTTP.Authorities {
				again(t, set, a, authority, args)
				for _, method := range methods(s, a) {
					sameBy(t, set, a, authority, method)
				}
			}
		}
	}
}

// cleared has null wherever it may stand; nil for nowhere.
func cleared(a *runtime.Action, args runtime.Args) runtime.Args {
	var out runtime.Args
	for _, p := range a.Params {
		if !p.Nullable {
			continue
		}
		if out == nil {
			out = maps.Clone(args)
		}
		out[p.Name] = nil
	}
	return out
}

func again(t *testing.T, set *services.Set, a *runtime.Action, authority string, args runtime.Args) {
	t.Helper()
	in := wire(t, a, args)
	in.Scheme, in.Authority = "https", authority
	m, err := set.Table().Match(in)
	if err != nil || m.Action != string(a.Ref) {
		t.Errorf("%s %s is %q, not %s: %v", in.Method, in.Target, m.Action, a.Ref, err)
		return
	}
	want := map[string]any{}
	for _, p := range a.Params {
		if v, given := args[p.Name]; given && !unread(a, p) {
			want[p.Name] = v
		}
	}
	got := m.Args
	if got == nil {
		got = map[string]any{}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s %s reads %v, was made of %v", in.Method, in.Target, got, want)
	}
	req := &runtime.Request{
		Action: a.Ref, Args: m.Args, Raw: &runtime.Raw{Header: in.Header},
		Target: runtime.Target{Scheme: in.Scheme, Authority: authority, Method: in.Method, Path: in.Target},
	}
	if found, err := set.Resolve(req); err != nil || found.Action != a {
		t.Errorf("%s %s does not resolve: %v", in.Method, in.Target, err)
	}
}

// sameBy sends the action's path by another of its methods with the same body.
func sameBy(t *testing.T, set *services.Set, a *runtime.Action, authority, method string) {
	t.Helper()
	in := wire(t, a, sample(a))
	in.Scheme, in.Authority, in.Method = "https", authority, method
	if m, err := set.Table().Match(in); err != nil || m.Action != string(a.Ref) {
		t.Errorf("%s %s is %q, not %s: %v", method, in.Target, m.Action, a.Ref, err)
	}
}

// unread are arguments that a request does not give back: a rest argument has no
// place of its own, and a raw body is not read.
func unread(a *runtime.Action, p runtime.Param) bool {
	return p.Name == a.Rest && !named(a, p.Name) || p.In == runtime.InBody && (a.HTTP.BodyType == "raw" || a.HTTP.BodyType == "multipart")
}

// named reports whether the body's template names the argument.
func named(a *runtime.Action, name string) bool {
	if a.HTTP.Body == nil {
		return false
	}
	text, err := json.Marshal(a.HTTP.Body.Value)
	return err == nil && strings.Contains(string(text), `"{`+name+`}"`)
}

// sample gives every argument a value of its type.
func sample(a *runtime.Action) runtime.Args {
	args := runtime.Args{}
	for _, p := range a.Params {
		args[p.Name] = value(p)
	}
	switch a.Name {
	case "graphql-query", "query-analytics":
		args["query"] = "query Q { viewer { login } }"
	case "graphql-secret-query":
		args["query"] = "query Q { viewer { ciVariables recoveryCodes } }"
	case "graphql-mutation":
		args["query"] = "mutation M { addStar(input: {}) { clientMutationId } }"
	case "graphql-guarded":
		args["query"] = "mutation M { deleteIssue(input: {}) { clientMutationId } issueDelete(id: 1) { success } }"
	case "graphql-grant":
		args["query"] = "mutation M { inviteEnterpriseAdmin(input: {}) { id } webhookCreate(input: {}) { success } clusterAgentTokenCreate(input: {}) { secret } }"
	case "delete-organization":
		args["query"] = "mutation M { organizationDelete { success } }"
	}
	if _, ok := args["operationName"]; ok {
		args["operationName"] = args["query"].(string)[strings.IndexByte(args["query"].(string), ' ')+1:][:1]
	}
	return args
}

// value is one that a parameter takes, which must be escaped everywhere.
func value(p runtime.Param) any { return servicestest.Sample(p, "x"+p.Name+" é&+") }

// wire builds the request of an action by its mapping, as a client would.
func wire(t *testing.T, a *runtime.Action, args runtime.Args) classifier.Input {
	t.Helper()
	in := classifier.Input{Method: a.HTTP.Method, Header: http.Header{}}
	var target strings.Builder
	target.WriteString(base(a))
	for part := range strings.SplitSeq(a.HTTP.Path[1:], "/") {
		target.WriteByte('/')
		if name, isHole := strings.CutPrefix(part, "{"); isHole {
			name, verb, _ := strings.Cut(name, "}")
			name = strings.TrimSuffix(strings.TrimSuffix(name, ":int"), "...")
			part = url.PathEscape(fill(a.HTTP.PathParams[name], args)) + verb
		}
		target.WriteString(part)
	}
	query := url.Values{}
	for _, f := range a.HTTP.Query {
		template := f.Value.Value.(string)
		if list, isList := args[strings.Trim(template, "{}")].([]any); isList {
			for _, v := range list {
				query.Add(f.Name, text(v))
			}
			continue
		}
		query.Set(f.Name, fill(template, args))
	}
	if len(query) > 0 {
		target.WriteString("?" + query.Encode())
	}
	in.Target = target.String()
	for _, f := range a.HTTP.Headers {
		in.Header.Set(f.Name, fill(f.Value.Value.(string), args))
	}
	in.Body = body(t, a, args)
	return in
}

// grow fills the holes of a body. Anything but a whole hole is a constant.
func grow(template any, args runtime.Args) any {
	switch v := template.(type) {
	case map[string]any:
		members := map[string]any{}
		for name, inner := range v {
			members[name] = grow(inner, args)
		}
		return members
	case string:
		if value, isHole := args[strings.TrimSuffix(strings.TrimPrefix(v, "{"), "}")]; isHole && v[0] == '{' {
			return value
		}
	}
	return template
}

// fill replaces {name} by its value; the catalogue has no other templates.
func fill(template string, args runtime.Args) string {
	name, isHole := strings.CutPrefix(template, "{")
	if !isHole {
		return template
	}
	return text(args[strings.TrimSuffix(name, "}")])
}

func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return string(v)
	}
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(out)
}

func body(t *testing.T, a *runtime.Action, args runtime.Args) *classifier.Body {
	t.Helper()
	if a.HTTP.BodyType == "" || a.HTTP.BodyType == "raw" || a.HTTP.BodyType == "multipart" {
		return nil
	}
	if a.HTTP.Body == nil {
		empty, err := classifier.ParseBody("application/json", "", []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		return empty
	}
	tree := grow(a.HTTP.Body.Value, args)
	content, media := []byte(text(tree)), "application/json"
	if a.HTTP.BodyType == "form" {
		form := url.Values{}
		for name, v := range tree.(map[string]any) {
			form.Set(name, text(v))
		}
		content, media = []byte(form.Encode()), "application/x-www-form-urlencoded"
	}
	parsed, err := classifier.ParseBody(media, "", content)
	if err != nil {
		t.Fatalf("%s: %v", a.Ref, err)
	}
	return parsed
}
