package services_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

const makes = `
name: makes
version: 1.0.0
base_url: https://api.makes.test
actions:
  json:
    description: One by members
    method: POST
    path: /json
    args: [{name: a}, {name: user_id}, {name: more, rest: true}]
    request: {body: {a: "{a}", user_id: "{user_id}"}}
  form:
    description: One by fields
    method: POST
    path: /form
    args: [{name: a}, {name: n, type: integer}, {name: o, type: object}, {name: l, type: array}, {name: more, rest: true}]
    request: {body: {a: "{a}", n: "{n}", o: "{o}", l: "{l}"}, body_type: form}
  parts:
    description: One in parts
    method: POST
    path: /parts
    args: [{name: a}, {name: more, rest: true}]
    request: {body: {a: "{a}"}, body_type: multipart}
  whole:
    description: One that is the body
    method: POST
    path: /whole
    args: [{name: input, type: object}]
    request: {body: "{input}"}
  text:
    description: One as it is
    method: POST
    path: /text
    args: [{name: kind, default: text/plain}, {name: input}]
    request: {headers: {Content-Type: "{kind}"}, body: "{input}", body_type: raw}
  kinds:
    description: One that says what it is
    method: POST
    path: /kinds
    args: [{name: kind}, {name: a}]
    request: {headers: {Content-Type: "{kind}"}, body: {a: "{a}"}}
  change:
    description: Another method
    method: PUT
    path: /json
    args: [{name: a}, {name: more, rest: true}]
    request: {body: {a: "{a}"}}
  find:
    description: One without a body
    method: GET
    path: /json
    args: [{name: user_id}, {name: more, rest: true}]
  tagged:
    description: Some that have tags
    method: GET
    path: /tagged
    args: [{name: tags, type: array}, {name: kind}, {name: more, rest: true}]
  tags:
    description: Some tags as JSON, which nobody puts together
    method: POST
    path: /tags
    args: [{name: tags, type: array}, {name: more, rest: true}]
`

// A request that kimbap builds is refused for what it would be refused for when a
// program sent it.
func TestABuiltRequestAsksForNoOtherMethod(t *testing.T) {
	all := set(t, makes)
	for _, c := range []struct {
		action  runtime.Ref
		in      args
		refused string
	}{
		{"makes.json", args{"a": "1", "b": "2", "method": "DELETE"}, ""},
		{"makes.json", args{"a": "1", "_method": "DELETE"}, "_method"},
		{"makes.json", args{"a": "1", "_Method": "DELETE"}, "_method"},
		{"makes.json", args{"a": "1", "_method": "POST"}, ""},
		{"makes.json", args{"a": "1", "nested": map[string]any{"_method": "x"}}, ""},
		{"makes.form", args{"a": "1", "n": nil, "o": map[string]any{"x": "y"}, "l": []any{"1", n("2")}, "b": "2"}, ""},
		{"makes.form", args{"n": "3", "l": []any{}}, ""},
		{"makes.form", args{"a": "1", "_method": "DELETE"}, "_method"},
		{"makes.form", args{"a": "1", " _method[]": "DELETE"}, "_method"},
		{"makes.form", args{"a": "1", "$HttpMethod": "DELETE"}, "$httpmethod"},
		{"makes.parts", args{"a": "1", "b": "2"}, ""},
		{"makes.parts", args{"a": "1", "_method": "DELETE"}, "_method"},
		{"makes.parts", args{"a": "1", "_Method[x]": "DELETE"}, "_method"},
		{"makes.whole", args{"input": map[string]any{"a": "_method"}}, ""},
		{"makes.whole", args{"input": map[string]any{"_method": "DELETE"}}, "_method"},
		{"makes.text", args{"input": "a=1&_method=DELETE"}, ""},
		{"makes.text", args{"input": "a=1&_method=DELETE", "kind": "application/x-www-form-urlencoded"}, "_method"},
		{"makes.text", args{"input": `{"_method":"DELETE"}`, "kind": "application/json"}, "_method"},
		{"makes.text", args{"input": `{"x":"DELETE"}`, "kind": "application/json"}, ""},
		{"makes.kinds", args{"a": "&_method=DELETE&"}, ""},
		{"makes.kinds", args{"a": "&_method=DELETE&", "kind": "application/x-www-form-urlencoded"}, "_method"},
		{"makes.change", args{"a": "1", "_method": "DELETE"}, "_method"},
		{"makes.change", args{"a": "1", "b": "2"}, ""},
		{"makes.find", args{"user_id": "1", "b": "2"}, ""},
		{"makes.find", args{"_method": "DELETE"}, "_method"},
	} {
		checkBuilt(t, all.Resolve, c.action, c.in, c.refused)
	}
}

// What stands beside a declared name in a spelling that some server takes for it
// would be another value of it.
func TestUndeclaredMembersAreNoOtherSpellingOfDeclaredOnes(t *testing.T) {
	all := set(t, makes)
	for _, name := range []string{"user.id", " user_id", "user id", "user[id", "User_Id[]", "user_id\x00x"} {
		for _, action := range []runtime.Ref{"makes.json", "makes.find"} {
			checkBuilt(t, all.Resolve, action, args{"user_id": "1", name: "2"}, "the service sets user_id itself")
		}
	}
	for _, name := range []string{"user", "user.ids", "userid", "id"} {
		checkBuilt(t, all.Resolve, "makes.json", args{"user_id": "1", name: "2"}, "")
	}
}

// Some servers put a list or an object of a form or a query together from pieces.
func TestUndeclaredFieldsAreNoPiecesOfDeclaredOnes(t *testing.T) {
	all := set(t, makes)
	for _, name := range []string{"o.role", "o[role]", "O.Role", "l.0", "l[]", "l[0]"} {
		checkBuilt(t, all.Resolve, "makes.form", args{"a": "1", name: "2"}, "the service sets "+strings.ToLower(name[:1])+" itself")
	}
	for _, name := range []string{"a.role", "n.x", "other.role", "o_role", "ol.x"} {
		checkBuilt(t, all.Resolve, "makes.form", args{"a": "1", name: "2"}, "")
	}
	for name, refused := range map[string]string{"tags.0": "the service sets tags itself", "kind.0": "", "x.0": ""} {
		checkBuilt(t, all.Resolve, "makes.tagged", args{name: "2"}, refused)
		checkBuilt(t, all.Resolve, "makes.tags", args{name: "2"}, "")
	}
}

func checkBuilt(t *testing.T, resolve func(*runtime.Request) (runtime.Resolved, error), action runtime.Ref, in args, refused string) {
	t.Helper()
	_, err := resolve(&runtime.Request{Action: action, Args: in})
	if refused == "" {
		if err != nil {
			t.Errorf("%s %q: %v", action, in, err)
		}
		return
	}
	var e *runtime.Error
	if !errors.As(err, &e) || e.Code != runtime.CodeInvalidInput || !strings.Contains(e.Msg, refused) {
		t.Errorf("%s %q: got %v, want a refusal with %q", action, in, err, refused)
	}
}

// Where the arguments make another action's request, that is what to call, unless nobody
// can call it.
func TestWhatToCallInsteadCanBeCalled(t *testing.T) {
	all := set(t, `
name: odd
version: 1.0.0
base_url: https://api.odd.test
actions:
  user: {description: One, method: GET, path: "/users/{name}", args: [{name: name, required: true}]}
  me: {description: Oneself, method: GET, path: /users/me}
  rest: {description: Any read, method: GET, path: /**, allow_slash: true}
`)
	for name, want := range map[string]string{
		"me":  "kimbap call odd.me",
		"a/b": "see whether an argument of the path has a slash, or what else a path does not have there: kimbap actions describe odd.user",
	} {
		_, err := all.Resolve(&runtime.Request{Action: "odd.user", Args: args{"name": name}})
		if e := (*runtime.Error)(nil); !errors.As(err, &e) || e.Hint != want {
			t.Errorf("%s: %+v, want the hint %q", name, err, want)
		}
	}
}
