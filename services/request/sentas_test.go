package request_test

import (
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/request"
)

const sentAs = `
name: sent
version: 1.0.0
base_url: https://api.sent.test
actions:
  rename:
    method: POST
    path: /members
    risk: {level: low}
    args: [{name: prefix}, {name: role}]
    request: {body: {title: "{prefix}: {role}"}}
  promote:
    method: POST
    path: /members
    match: {body: {/role: admin}}
    risk: {level: critical}
    args: [{name: role}]
  note:
    method: GET
    path: /note
    risk: {level: low}
    args: [{name: kind}, {name: sudo}]
    request: {headers: {X-What: "{kind} {sudo}"}}
  note-as:
    method: GET
    path: /note
    match: {header: {Sudo: "*"}}
    risk: {level: critical}
    args: [{name: sudo, required: true}]
    request: {headers: {Sudo: "{sudo}"}}
  preview:
    method: DELETE
    path: /files
    match: {query: {preview: "*"}}
    risk: {level: low}
    args: [{name: more, rest: true}]
  delete:
    method: DELETE
    path: /files
    risk: {level: high}
  find:
    method: GET
    path: /find
    risk: {level: low}
    args: [{name: by, type: object}]
    request: {query: {by: "{by}"}}
  find-all:
    method: GET
    path: /find
    match: {query: {by: '{"name":"<>"}'}}
    risk: {level: high}
`

// A request that is built is the action that was judged, whichever arguments are given;
// otherwise there is none.
func TestWhatIsBuiltIsWhatWasJudged(t *testing.T) {
	service, err := services.Parse("sent.yaml", []byte(sentAs))
	if err != nil {
		t.Fatal(err)
	}
	set, err := services.NewSet([]*services.Service{service})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		action runtime.Ref
		args   runtime.Args
		none   bool
	}{
		{"sent.rename", runtime.Args{"prefix": "a", "role": "admin"}, false},
		{"sent.rename", runtime.Args{"role": "admin"}, false},
		{"sent.promote", runtime.Args{"role": "admin"}, false},
		{"sent.note", runtime.Args{"kind": "a", "sudo": "root"}, false},
		{"sent.note", runtime.Args{"sudo": "root"}, false},
		{"sent.note-as", runtime.Args{"sudo": "root"}, false},
		{"sent.preview", runtime.Args{"preview": "1"}, false},
		{"sent.preview", runtime.Args{"preview": nil}, true},
		{"sent.preview", runtime.Args{"preview": []any{}}, true},
		{"sent.preview", runtime.Args{"preview": []any{nil}}, false},
		{"sent.find", runtime.Args{"by": map[string]any{"name": "a&b"}}, false},
		{"sent.find", runtime.Args{"by": map[string]any{"name": "<>"}}, true}, // it is sent as find-all
	} {
		action, args, err := set.Resolve(&runtime.Request{Action: c.action, Args: c.args})
		if c.none {
			if err == nil {
				t.Errorf("%s with %v is taken for one", c.action, c.args)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %v: %v", c.action, c.args, err)
			continue
		}
		r, err := request.Build(action, args)
		if err != nil {
			t.Errorf("%s %v: %v", c.action, c.args, err)
			continue
		}
		in := classifier.Input{Scheme: r.Scheme, Authority: r.Authority, Method: r.Method, Target: r.Target, Header: r.Header}
		if in.Body, err = classifier.ParseBody(r.Header.Get("Content-Type"), "", r.Body); err != nil {
			t.Errorf("%s %v: %v", c.action, c.args, err)
			continue
		}
		if m, err := set.Table().Match(in); err != nil || m.Action != string(c.action) {
			t.Errorf("%s with %v is sent as %s: %s %s %v %s (%v)", c.action, c.args, m.Action, r.Method, r.Target, r.Header, r.Body, err)
		}
	}
}
