package services_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

const heads = `
name: heads
version: 1.0.0
base_url: https://api.heads.test
actions:
  get:
    description: One with texts in its head
    method: GET
    path: /x
    args: [{name: app}, {name: version}, {name: trace}]
    request: {headers: {User-Agent: "{app} of us", Accept: "application/vnd.heads.{version}+json", X-Trace: "t-{trace}"}}
  put:
    description: One that may say its type
    method: PUT
    path: /x
    args: [{name: format}, {name: a}]
    request: {headers: {Content-Type: "application/{format}+json"}, body: {a: "{a}"}}
`

// A field whose argument is not given is left out; in one that every request has stands
// what kimbap writes there, which says no argument.
func TestAFieldOfTheHeadIsLeftOutWithItsArgument(t *testing.T) {
	t.Parallel()
	all := set(t, heads)
	for _, c := range []struct {
		action runtime.Ref
		given  args
		field  string
		want   []string
	}{
		{"heads.get", args{}, "User-Agent", []string{"kimbap"}},
		{"heads.get", args{}, "Accept", nil},
		{"heads.get", args{}, "X-Trace", nil},
		{"heads.get", args{"trace": "1"}, "User-Agent", []string{"kimbap"}},
		{"heads.get", args{"app": "a"}, "User-Agent", []string{"a of us"}},
		{"heads.put", args{"a": "x"}, "Content-Type", []string{"application/json"}},
		{"heads.put", args{"a": "x", "format": "merge"}, "Content-Type", []string{"application/merge+json"}},
	} {
		got, err := all.Resolve(&runtime.Request{Action: c.action, Args: c.given})
		if err != nil {
			t.Errorf("%s with %v: %v", c.action, c.given, err)
			continue
		}
		if said := got.Built.Header[c.field]; !slices.Equal(said, c.want) || len(got.Args) != len(c.given) {
			t.Errorf("%s with %v: %s is %q, and it is judged by %v", c.action, c.given, c.field, said, got.Args)
		}
	}
}

// The same of a next page that has waited for a person: kimbap made it, with its own name.
func TestANextPageIsTheSameAfterItHasWaited(t *testing.T) {
	t.Parallel()
	all := set(t, heads)
	for _, followed := range []bool{true, false} {
		_, err := all.Resolve(&runtime.Request{
			Action: "heads.get", Followed: followed, Waited: true, Raw: &runtime.Raw{Header: http.Header{"User-Agent": {"kimbap"}}},
			Target: runtime.Target{Scheme: "https", Authority: "api.heads.test:443", Method: "GET", Path: "/x?page=2"},
		})
		if (err == nil) != followed {
			t.Errorf("followed %v: %v", followed, err)
		}
	}
}

const beside = `
name: beside
version: 1.0.0
base_url: https://api.beside.test
auth: {type: query, credential_ref: b, query: {name: api_key}}
actions:
  put:
    description: One that is its body
    method: PUT
    path: /x
    args: [{name: input, type: object}]
    request: {body: "{input}"}
  list:
    description: A list that is its body
    method: POST
    path: /x
    args: [{name: input, type: array}]
    request: {body: "{input}"}
`

// Some servers read a member of a document as they read a parameter: none may stand beside
// the key that the query has.
func TestADocumentBringsNoOtherKey(t *testing.T) {
	t.Parallel()
	all := set(t, beside)
	for _, c := range []struct {
		action runtime.Ref
		input  any
		taken  bool
	}{
		{"beside.put", map[string]any{"a": "1"}, true},
		{"beside.put", map[string]any{"in": map[string]any{"api_key": "1"}}, true},
		{"beside.put", map[string]any{"api_key": "mine"}, false},
		{"beside.put", map[string]any{"API_Key": "mine"}, false},
		{"beside.list", []any{"api_key"}, true},
		{"beside.list", []any{map[string]any{"api_key": "1"}}, true},
	} {
		_, err := all.Resolve(&runtime.Request{Action: c.action, Args: args{"input": c.input}})
		if (err == nil) != c.taken || err != nil && runtime.AsError(err).Reason != runtime.ReasonDuplicateParameter {
			t.Errorf("%s with %v: %v", c.action, c.input, err)
		}
	}
}

const tags = `
name: tags
version: 1.0.0
base_url: https://api.tags.test
actions:
  put:
    description: A list in a field
    method: PUT
    path: /x
    args: [{name: tags, type: array}]
    request: {headers: {X-Tags: "{tags}"}}
`

// Who reads a field that is a list parts it at its commas: so it is judged, and no call says
// an element that is two.
func TestAListInTheHeadIsWhatItsReadersFind(t *testing.T) {
	t.Parallel()
	all := set(t, tags)
	for _, c := range []struct {
		given []any
		taken bool
	}{
		{[]any{"a", "b"}, true},
		{[]any{`"a"`, "b c"}, true},
		{[]any{"a,b"}, false},
		{[]any{"a", `"b,c"`}, false},
		{[]any{"a", ""}, false},
	} {
		if _, err := all.Resolve(&runtime.Request{Action: "tags.put", Args: args{"tags": c.given}}); (err == nil) != c.taken {
			t.Errorf("a call with %q: %v", c.given, err)
		}
	}
	for _, c := range []struct {
		lines []string
		want  []any
	}{
		{[]string{"a, b,c"}, []any{"a", "b", "c"}},
		{[]string{"a", "b"}, []any{"a", "b"}},
		{[]string{`"a" ,, "b"`}, []any{`"a"`, `"b"`}},
		{[]string{`"a, b"`}, nil},
		{[]string{`"a`, `b"`}, nil},
		{[]string{`"a\",\"b"`}, nil}, // one element to who knows escapes, two to others
		{[]string{`"a\"b\"", c`}, []any{`"a\"b\""`, "c"}},
		{[]string{`a, 5" pipe`}, []any{"a", `5" pipe`}},
	} {
		match, err := all.Table().Match(classifier.Input{Scheme: "https", Authority: "api.tags.test:443", Method: "PUT", Target: "/x", Header: http.Header{"X-Tags": c.lines}})
		if got, _ := match.Args["tags"].([]any); !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%q is read as %q: %v", c.lines, got, err)
		}
	}
}

// A field that lists nothing gives nothing, sent by a program as in a call: a rule about each
// of its elements is not met by none.
func TestAListOfNothingInTheHeadIsNotGiven(t *testing.T) {
	t.Parallel()
	all := set(t, tags)
	for _, lines := range [][]string{nil, {""}, {" , "}, {"", ","}} {
		match, err := all.Table().Match(classifier.Input{Scheme: "https", Authority: "api.tags.test:443", Method: "PUT", Target: "/x", Header: http.Header{"X-Tags": lines}})
		if _, given := match.Args["tags"]; given || err != nil {
			t.Errorf("%q is read as %v: %v", lines, match.Args, err)
		}
	}
	got, err := all.Resolve(&runtime.Request{Action: "tags.put", Args: args{"tags": []any{}}})
	if _, given := got.Args["tags"]; given || err != nil {
		t.Errorf("a call: %v, %v", got.Args, err)
	}
}

// What some server would take for the key's own parameter is its place too.
func TestTheKeyHasItsPlaceInEverySpelling(t *testing.T) {
	t.Parallel()
	for action, auth := range map[string]string{
		`{method: GET, path: /x, args: [{name: API_Key}]}`:                                   "{type: query, credential_ref: k, query: {name: api_key}}",
		`{method: GET, path: /x, args: [{name: a}], request: {query: {"api_key[]": "{a}"}}}`: "{type: query, credential_ref: k, query: {name: api_key}}",
		`{method: GET, path: /x, match: {query: {Api_Key: "1"}}}`:                            "{type: query, credential_ref: k, query: {name: api_key}}",
		`{method: POST, path: /x, args: [{name: API_Key}]}`:                                  "{type: body, credential_ref: k, body: {field: api_key}}",
		`{method: POST, path: /x, args: [{name: a}], request: {body: {API_KEY: "{a}"}}}`:     "{type: body, credential_ref: k, body: {field: api_key}}",
	} {
		_, err := services.Parse("f.yaml", []byte("name: a\nversion: 1.0.0\nbase_url: https://a.test\nauth: "+auth+"\nactions: {x: "+action+"}\n"))
		if err == nil || !strings.Contains(err.Error(), "is where the credential goes") {
			t.Errorf("%s: %v", action, err)
		}
	}
}
