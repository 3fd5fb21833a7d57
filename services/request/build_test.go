package request_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/request"
)

func tmpl(v any) runtime.Template { return runtime.Template{Value: v} }

func TestBuild(t *testing.T) {
	spec := func(edit func(*runtime.HTTPSpec)) *runtime.HTTPSpec {
		s := &runtime.HTTPSpec{BaseURL: "https://api.example.com/v2", Authorities: []string{"api.example.com:443"}, Method: "POST", Path: "/x"}
		edit(s)
		return s
	}
	for name, c := range map[string]struct {
		spec   *runtime.HTTPSpec
		params []runtime.Param
		args   runtime.Args
		target string
		body   string
		kind   string
		bad    bool
	}{
		"path is one segment": {spec: spec(func(s *runtime.HTTPSpec) { s.Path = "/r/{owner}/f/{path...}" }),
			args: runtime.Args{"owner": "a/b?#c", "path": "d e/f"}, target: "/v2/r/a%2Fb%3F%23c/f/d%20e/f"},
		"path is missing": {spec: spec(func(s *runtime.HTTPSpec) { s.Path = "/r/{owner}" }), bad: true},
		"path climbs":     {spec: spec(func(s *runtime.HTTPSpec) { s.Path = "/r/{p...}" }), args: runtime.Args{"p": "a/../b"}, bad: true},
		"many paths":      {spec: spec(func(s *runtime.HTTPSpec) { s.Path = "/**" }), bad: true},
		"query": {spec: spec(func(s *runtime.HTTPSpec) {
			s.Method = "GET"
			s.Query = []runtime.Field{{Name: "z", Value: tmpl("{n}")}, {Name: "a", Value: tmpl("{list}")}, {Name: "none", Value: tmpl("{absent}")}, {Name: "c", Value: tmpl("is:{n}")}}
		}), args: runtime.Args{"n": json.Number("1e2"), "list": []any{"x&y", true}}, target: "/v2/x?z=1e2&a=x%26y&a=true&c=is%3A1e2"},
		"json keeps types": {spec: spec(func(s *runtime.HTTPSpec) {
			b := tmpl(map[string]any{"t": "{t}", "n": "{n}", "l": []any{"{t}", "{absent}"}, "gone": "{absent}", "fix": "<v>"})
			s.Body = &b
		}), args: runtime.Args{"t": "x", "n": json.Number("10000000000000000001")}, target: "/v2/x",
			body: `{"fix":"<v>","l":["x"],"n":10000000000000000001,"t":"x"}`, kind: "application/json"},
		"body is the argument": {spec: spec(func(s *runtime.HTTPSpec) { b := tmpl("{input}"); s.Body = &b }), args: runtime.Args{"input": []any{json.Number("1")}},
			target: "/v2/x", body: `[1]`, kind: "application/json"},
		"form": {spec: spec(func(s *runtime.HTTPSpec) {
			b := tmpl(map[string]any{"b": "{t}", "a": "{t}"})
			s.Body, s.BodyType = &b, "form"
		}), args: runtime.Args{"t": "x y"}, target: "/v2/x", body: "a=x+y&b=x+y", kind: "application/x-www-form-urlencoded"},
		"raw": {spec: spec(func(s *runtime.HTTPSpec) { b := tmpl("{t}"); s.Body, s.BodyType = &b, "raw" }), args: runtime.Args{"t": "as it is"},
			target: "/v2/x", body: "as it is", kind: "application/octet-stream"},
		"undeclared in the query": {spec: spec(func(s *runtime.HTTPSpec) { s.Method = "GET" }), params: []runtime.Param{{Name: "body", In: runtime.InQuery}},
			args: runtime.Args{"body": map[string]any{"limit": json.Number("5"), "all": []any{"a", "b"}, "none": nil}}, target: "/v2/x?all=a&all=b&limit=5"},
		"undeclared in the body": {spec: spec(func(*runtime.HTTPSpec) {}), params: []runtime.Param{{Name: "body", In: runtime.InBody}},
			args: runtime.Args{"body": map[string]any{"more": true}}, target: "/v2/x", body: `{"more":true}`, kind: "application/json"},
		"undeclared beside what the service sets": {spec: spec(func(s *runtime.HTTPSpec) { b := tmpl(map[string]any{"a": "{a}"}); s.Body = &b }),
			params: []runtime.Param{{Name: "a"}, {Name: "body", In: runtime.InBody}},
			args:   runtime.Args{"a": "b", "body": map[string]any{"text": "hi"}}, target: "/v2/x", body: `{"a":"b","text":"hi"}`, kind: "application/json"},
		"undeclared where a template has it": {spec: spec(func(s *runtime.HTTPSpec) { b := tmpl(map[string]any{"all": "{body}"}); s.Body = &b }),
			params: []runtime.Param{{Name: "body", In: runtime.InBody}},
			args:   runtime.Args{"body": map[string]any{"text": "hi"}}, target: "/v2/x", body: `{"all":{"text":"hi"}}`, kind: "application/json"},
		"a field that ends in a blank": {spec: spec(func(s *runtime.HTTPSpec) { s.Headers = []runtime.Field{{Name: "X-A", Value: tmpl("{a}")}} }), args: runtime.Args{"a": "x "}, bad: true},
		"a field of two lines":         {spec: spec(func(s *runtime.HTTPSpec) { s.Headers = []runtime.Field{{Name: "X-A", Value: tmpl("{a}")}} }), args: runtime.Args{"a": "x\r\nY: z"}, bad: true},
		"no host":                      {spec: spec(func(s *runtime.HTTPSpec) { s.Authorities = nil }), bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			before := fmt.Sprint(c.args)
			defer func() { equal(t, "the caller's arguments", fmt.Sprint(c.args), before) }()
			r, err := request.Build(&runtime.Action{Ref: "t.a", HTTP: c.spec, Params: c.params, Rest: "body"}, c.args)
			if c.bad {
				equal(t, "code", runtime.CodeOf(err), runtime.CodeInvalidInput)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "target", r.Target, c.target)
			equal(t, "body", string(r.Body), c.body)
			equal(t, "type", r.Header.Get("Content-Type"), c.kind)
		})
	}
}

func TestExpand(t *testing.T) {
	equal(t, "expanded", request.Expand("no {a}/{b} {", runtime.Args{"a": "x"}), "no x/{b} {")
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
