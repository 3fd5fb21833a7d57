package services_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

const says = `
name: says
version: 1.0.0
base_url: https://api.says.test
actions:
  find:
    method: GET
    path: /find/{id}
    args: [{name: id}, {name: l, type: array}, {name: o, type: object}, {name: b, type: boolean}, {name: n, type: number}, {name: f, type: array}, {name: more, rest: true}]
    request: {headers: {X-Fields: "{f}"}}
  json:
    method: POST
    path: /json
    args: [{name: a}, {name: l, type: array}, {name: o, type: object}, {name: q, type: array}, {name: more, rest: true}]
    request: {query: {q: "{q}"}}
  form:
    method: POST
    path: /form
    args: [{name: l, type: array}, {name: n, type: integer}, {name: o, type: object}, {name: more, rest: true}]
    request: {body_type: form}
  whole:
    method: POST
    path: /whole
    args: [{name: input, type: object}]
    request: {body: "{input}", body_type: form}
  parts:
    method: POST
    path: /parts
    args: [{name: l, type: array}, {name: file}, {name: more, rest: true}]
    request: {body_type: multipart}
  joined:
    method: POST
    path: /files/{ref}
    args: [{name: owner}, {name: repo}, {name: mode, default: safe}, {name: level}, {name: kind, default: plain}]
    request: {path_params: {ref: "{owner}-{repo}"}, headers: {X-Mode: "{mode} {level}"}, body: {name: "{owner}/{repo}", kind: "{kind}"}}
  two:
    method: POST
    path: /two
    args: [{name: a}, {name: b}]
    request: {body: {both: "{a}, {b}"}}
  two-parts:
    method: POST
    path: /two-parts
    args: [{name: a}, {name: b}]
    request: {body_type: multipart, body: {both: "{a}, {b}"}}
  two-raw:
    method: POST
    path: /two-raw
    args: [{name: a}, {name: b}, {name: c}]
    request: {body_type: raw, body: "<a>{a}</a><b>{b}</b>{c}"}
  page:
    method: POST
    path: /page
    args: [{name: kind, enum: [text/plain, text/html]}, {name: text}]
    request: {headers: {Content-Type: "{kind}"}, body_type: raw, body: "{text}"}
  noted:
    method: POST
    path: /noted
    args: [{name: kind}, {name: a}]
    request: {headers: {Content-Type: "{kind}"}, body: {a: "{a}", noted: "{kind}"}}
  kinds:
    method: POST
    path: /kinds
    args: [{name: kind}, {name: a}]
    request: {headers: {Content-Type: "{kind}"}, body: {a: "{a}"}}
`

// In a query, a field, a form or parts everything is text, and a list of one is what is in
// it. Policy judges that: a rule about "admin" is not passed by ["admin"], nor one about "1"
// by 1.
func TestArgumentsAreJudgedAsTheRequestSaysThem(t *testing.T) {
	t.Parallel()
	all, file := set(t, says), map[string]any{"filename": "a.txt", "content": "x"}
	several := func() []any { return []any{"a", n("1"), true, []any{"z"}, map[string]any{"k": []any{}}} }
	texts := []any{"a", "1", "true", `["z"]`, `{"k":[]}`}
	for name, c := range map[string]struct {
		action   runtime.Ref
		in, want args
	}{
		"a list of a query":          {"says.find", args{"id": "1", "l": append(several(), nil)}, args{"id": "1", "l": append(append([]any{}, texts...), "")}},
		"a list of a field":          {"says.find", args{"id": "1", "f": several()}, args{"id": "1", "f": texts}},
		"the rest of a query":        {"says.find", args{"id": "1", "role": []any{"admin"}, "x": n("1"), "y": several(), "z": nil, "e": []any{}}, args{"id": "1", "more": map[string]any{"role": "admin", "x": "1", "y": texts}}},
		"what has a type of its own": {"says.find", args{"id": "1", "o": map[string]any{"a": []any{n("1")}}, "b": true, "n": n("1.50")}, args{"id": "1", "o": map[string]any{"a": []any{n("1")}}, "b": true, "n": n("1.50")}},
		"a document":                 {"says.json", args{"l": several(), "x": several(), "y": nil}, args{"l": several(), "more": map[string]any{"x": several(), "y": nil}}},
		"a query beside a document":  {"says.json", args{"q": []any{n("1")}}, args{"q": []any{"1"}}},
		"a list that is none in Go":  {"says.json", args{"l": []any(nil)}, args{"l": []any{}}},
		"a form":                     {"says.form", args{"l": several(), "n": n("5"), "o": map[string]any{"a": n("1")}, "role": []any{"admin"}, "x": n("1")}, args{"l": texts, "n": n("5"), "o": map[string]any{"a": n("1")}, "more": map[string]any{"role": "admin", "x": "1"}}},
		"a form that is one":         {"says.whole", args{"input": map[string]any{"role": []any{"admin"}, "x": n("1"), "z": nil}}, args{"input": map[string]any{"role": "admin", "x": "1"}}},
		"parts":                      {"says.parts", args{"l": []any{n("1"), nil, file}, "file": file, "role": []any{"admin"}, "x": n("1"), "y": []any{file}, "z": nil}, args{"l": []any{"1", file}, "file": file, "more": map[string]any{"role": "admin", "x": "1", "y": file}}},
		"a file by the name it gets": {"says.parts", args{"file": map[string]any{"filename": `x/..\config.yml`, "content": "x"}, "l": []any{map[string]any{"filename": "/a/b.txt", "content": "x"}}}, args{"file": map[string]any{"filename": "config.yml", "content": "x"}, "l": []any{map[string]any{"filename": "b.txt", "content": "x"}}}},
		"an empty list":              {"says.find", args{"id": "1", "l": []any{}, "f": []any{}}, args{"id": "1"}},
		"nothing for the rest":       {"says.find", args{"id": "1", "more": map[string]any{}}, args{"id": "1"}},
		"an empty list of a form":    {"says.form", args{"l": []any{}, "n": n("5")}, args{"n": n("5")}},
		"a list of nothing in parts": {"says.parts", args{"l": []any{nil}, "file": file}, args{"file": file}},
		"a type that nobody said":    {"says.kinds", args{"a": "x"}, args{"a": "x", "kind": "application/json"}},
		"a type that is none of its": {"says.page", args{"text": "x"}, args{"text": "x"}},
		"a type that is noted":       {"says.noted", args{"a": "x"}, args{"a": "x"}},
		"an argument beside its own": {"says.joined", args{"owner": "a", "repo": "b-c", "level": "high", "mode": "safe"}, args{"owner": "a", "repo": "b-c", "level": "high", "mode": "safe", "kind": "plain"}},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := all.Resolve(&runtime.Request{Action: c.action, Args: c.in})
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(found.Args, c.want) {
				t.Errorf("judged as %v, want %v", found.Args, c.want)
			}
			again, err := all.Resolve(&runtime.Request{Action: c.action, Args: found.Args})
			if err != nil || again.Built.Target != found.Built.Target || c.action != "says.parts" && string(again.Built.Body) != string(found.Built.Body) {
				t.Errorf("what was judged makes another request (%v)", err)
			}
			if strings.Contains(string(found.Built.Body), "null") != strings.HasPrefix(name, "a document") {
				t.Errorf("the body is %s", found.Built.Body)
			}
		})
	}
}

// An argument that nobody would read back as it was given is not the one that a rule looks
// at: where several stand in one text, each could take from the next.
func TestAnArgumentThatWouldBeReadOtherwiseIsRefused(t *testing.T) {
	t.Parallel()
	all := set(t, says)
	for name, c := range map[string]struct {
		action runtime.Ref
		in     args
		about  string // "": it is taken
	}{
		"one that takes from the next":       {"says.two", args{"a": "everybody, x", "b": "nobody"}, `argument "a" of says.two`},
		"the last may hold what parts them":  {"says.two", args{"a": "one", "b": "x, y"}, ""},
		"one that has a piece of it":         {"says.two", args{"a": "one,two three", "b": "x"}, ""},
		"in a part":                          {"says.two-parts", args{"a": "everybody, x", "b": "nobody"}, `argument "a" of says.two-parts`},
		"the last of a part":                 {"says.two-parts", args{"a": "one,two", "b": "x, y"}, ""},
		"in a raw body":                      {"says.two-raw", args{"a": "1</a><b>2", "b": "3", "c": "4"}, `argument "a" of says.two-raw`},
		"the second of a raw body":           {"says.two-raw", args{"a": "1", "b": "2</b>", "c": "4"}, `argument "b" of says.two-raw`},
		"the last of a raw body":             {"says.two-raw", args{"a": "1</b>", "b": "</a><b>", "c": "</b>"}, ""},
		"in a field":                         {"says.joined", args{"owner": "a", "repo": "b", "mode": "x y", "level": "z"}, `argument "mode" of says.joined`},
		"a text that is no UTF-8":            {"says.two", args{"a": "x\xff", "b": "y"}, `argument "a" of says.two`},
		"one in a document that is no UTF-8": {"says.json", args{"a": "x\xff"}, `argument "a" of says.json`},
		"one in a list":                      {"says.json", args{"l": []any{"x\xff"}}, `argument "l" of says.json`},
		"one in an object":                   {"says.json", args{"o": map[string]any{"a": "y", "b": "x\xff"}}, `argument "o" of says.json`},
		"a name in an object":                {"says.json", args{"o": map[string]any{"a": "y", "b\xff": "x"}}, `argument "o" of says.json`},
		"one that is not declared":           {"says.json", args{"x": []any{"y", map[string]any{"b": "x\xff"}}}, `argument "more" of says.json`},
		"a name that is not declared":        {"says.json", args{"x": map[string]any{"b\xff": "x"}}, `argument "more" of says.json`},
		"one that would not be sent":         {"says.two", args{"a": "x"}, `argument "a" of says.two`},
		"one in a field":                     {"says.joined", args{"owner": "a", "repo": "b", "mode": "fast"}, `argument "mode" of says.joined`},
		"a default that would not be":        {"says.joined", args{"owner": "a", "repo": "b"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := all.Resolve(&runtime.Request{Action: c.action, Args: c.in})
			switch e := runtime.AsError(err); {
			case c.about == "" && err != nil:
				t.Error(err)
			case c.about == "":
			case err == nil:
				t.Errorf("it is sent: %s %v %s", found.Built.Target, found.Built.Header, found.Built.Body)
			case e.Code != runtime.CodeInvalidInput || !strings.HasPrefix(e.Msg, c.about):
				t.Error(err)
			}
		})
	}
	if found, err := all.Resolve(&runtime.Request{Action: "says.joined", Args: args{"owner": "a", "repo": "b"}}); err != nil || found.Args["mode"] != nil {
		t.Errorf("a default that is not sent is judged: %v (%v)", found.Args, err)
	}
}
