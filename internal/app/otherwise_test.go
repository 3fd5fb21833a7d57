package app_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

const branches = `name: git
version: 1.0.0
description: Branches, their status and files, for tests
base_url: https://api.notes.test
auth: {type: bearer, credential_ref: notes.token}
actions:
  get: {description: Read a branch, method: GET, path: "/branches/{name}", risk: {level: low}, args: [{name: name, required: true}, {name: full}], request: {query: {full: "{full}"}}}
  status: {description: Read its status, method: GET, path: "/branches/{name}/status", risk: {level: low}, args: [{name: name, required: true}]}
  read: {description: Read a file, method: GET, path: "/files/{name...}", allow_slash: true, risk: {level: low}, args: [{name: name, required: true}]}
  remove: {description: Remove a branch, method: DELETE, path: "/branches/{name}", risk: {level: high}, args: [{name: name, required: true}]}
`

const branchRules = `version: 1
rules:
  - {name: no-prod, match: {action: git.get}, when: 'args.name == "prod"', then: deny, reason: nobody reads it}
  - {name: no-etc, match: {action: git.read}, when: 'request.path == "/files/etc/passwd"', then: deny}
  - {name: ask-dev, match: {action: git.get}, when: 'args.name == "dev"', then: require_approval}
  - {name: no-full, match: {action: git.get, surface: proxy}, when: 'request.query.?full.orValue([]).exists(v, v == "1")', then: deny}
  - {name: whole, match: {action: git.get, surface: proxy}, when: 'args.name == "big" && !("full" in request.query)', then: deny}
  - {name: removes, match: {action: git.remove}, when: 'args.name != "prod"', then: allow}
  - {name: keeps, match: {action: git.remove}, then: deny}
`

// A request passes only if policy lets pass whatever some server could take it for: one that
// decodes a path before it looks for the query, or more than once, or ends it at a ";".
func TestPolicyJudgesWhatSomeServersMakeOfAPath(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"std", "relay", "HTTP/2"} {
		o := apptest.Options{Engine: engine, Services: []string{branches}, Policy: branchRules}
		if engine == "HTTP/2" {
			o.Engine = "relay"
		}
		k := apptest.New(t, o)
		client := k.Client(t, "")
		client.Transport.(*http.Transport).ForceAttemptHTTP2 = engine == "HTTP/2"
		if resp, err := client.Get("https://" + apptest.Host + "/branches/main"); err != nil || (resp.ProtoMajor == 2) != (engine == "HTTP/2") || resp.Body.Close() != nil {
			t.Fatalf("%s: %v %v", engine, resp, err)
		}
		at := " https://" + apptest.Host
		for line, rule := range map[string]string{
			"GET" + at + "/branches/prod":              "no-prod",
			"GET" + at + "/branches/prod%3Fx":          "no-prod",
			"GET" + at + "/branches/prod%23x":          "no-prod",
			"GET" + at + "/branches/prod%253Fx":        "no-prod",
			"GET" + at + "/branches/pr%256Fd":          "no-prod",
			"GET" + at + "/branches/prod%23x/status":   "no-prod",
			"GET" + at + "/branches/dev%23x":           "ask-dev",
			"GET" + at + "/branches/x%3Ffull=1":        "no-full",
			"GET" + at + "/branches/big?full=a":        "",
			"GET" + at + "/branches/big%3Ffull=a":      "whole",
			"DELETE" + at + "/branches/prod%23x":       "keeps",
			"GET" + at + "/files/etc%252Fpasswd":       "no-etc",
			"GET" + at + "/files/etc/pass%77d":         "no-etc",
			"GET" + at + "/files/etc/pass%2577d":       "no-etc",
			"GET" + at + "/files/etc/passwd%3Fx":       "no-etc",
			"GET" + at + "/branches/fix%23123":         "",
			"GET" + at + "/branches/fix%23123/status":  "",
			"GET" + at + "/branches/what%3F":           "",
			"GET" + at + "/files/docs/c%23/what%3F.md": "",
			"GET" + at + "/files/50%25%20off.txt":      "",
			"GET" + at + "/files/etc%2Fother":          "",
			"GET" + at + "/files/caf%25C3%25A9%2520":   "",
			"DELETE" + at + "/branches/fix%23123":      "",
		} {
			before := len(k.Up.Requests())
			a := apptest.Send(t, client, line, "")
			passed := len(k.Up.Requests()) > before
			if passed != (rule == "") || rule != "" && (a.Status != http.StatusForbidden || a.Problem.Rule != rule) {
				t.Errorf("%s: %s: %d %+v", engine, line, a.Status, a.Problem)
			}
			if rule != "" && strings.Contains(line, "%") && !strings.Contains(line, "%77") && !strings.Contains(a.Body, "otherwise than it is written, as git.") {
				t.Errorf("%s: %s: it does not say why: %s", engine, line, a.Body)
			}
		}
	}
}

// So it is with the scopes of a token, with a call by name, and with explain, which says why.
func TestOtherReadingsOfAPathEverywhere(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Services: []string{branches}, Policy: branchRules})
	secret, _, err := k.App.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Scopes: []string{"git.status"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	client := k.Client(t, secret.Reveal())
	at := "https://" + apptest.Host + "/branches/"
	if a := apptest.Send(t, client, "GET "+at+"fix%23123/status", ""); a.Status != 403 || a.Problem.Reason != string(runtime.ReasonScope) {
		t.Errorf("to some servers that is git.get, which the token may not: %d %+v", a.Status, a.Problem)
	}
	if a := apptest.Send(t, client, "GET "+at+"main/status", ""); a.Status != 200 {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
	for name, want := range map[string]runtime.Code{"fix#123": "", "prod?x": runtime.CodeForbidden, "dev#x": runtime.CodeForbidden, "prod": runtime.CodeForbidden} {
		req := &runtime.Request{Surface: runtime.SurfaceCall, Caller: k.App.Local(), Action: "git.get", Args: runtime.Args{"name": name}, Unattended: true}
		if err := k.App.Pipeline().Do(t.Context(), req, &app.Answer{}); runtime.CodeOf(err) != want {
			t.Errorf("git.get of %s: %v", name, err)
		}
	}
	for url, rule := range map[string]string{"prod%3Fx": "no-prod", "fix%23123": "default:low"} {
		x, err := k.App.Explain(t.Context(), "GET", at+url)
		if err != nil || x.Rule != rule || (x.Effect == "allow") != (rule == "default:low") {
			t.Errorf("explain %s: %+v, %v", url, x, err)
		}
	}
}

// A script's own list of what it may use bounds its calls as the scopes of a token do.
func TestAScriptsListHoldsForOtherReadings(t *testing.T) {
	t.Parallel()
	_, client := scripting(t, apptest.Options{Services: []string{branches}, Policy: branchRules})
	got := post(t, client, "/v1/exec", map[string]any{"allow": []string{"git.status"}, "code": `
		const code = name => tools.git.status({name}).then(() => "", e => e.code);
		return [await code("main"), await code("fix#1")];`}, "")
	if string(got.Value) != `["","forbidden"]` {
		t.Errorf("to some servers the second is git.get: %s", got.text)
	}
}

const folders = `name: up
version: 1.0.0
description: Uploads, for tests
base_url: https://api.notes.test
auth: {type: bearer, credential_ref: notes.token}
actions:
  file: {description: Upload, method: POST, path: "/folders/{folder}", risk: {level: low}, args: [{name: folder, required: true}, {name: text}, {name: shown}], request: {body: {text: "{text}", shown: "{shown}"}, body_type: multipart}}
  part: {description: Upload, method: POST, path: "/folders/{folder}/parts", risk: {level: low}, args: [{name: folder, required: true}, {name: text}], request: {body: {text: "{text}"}, body_type: multipart}}
  note: {description: Note, method: POST, path: "/notes/{folder}", risk: {level: low}, args: [{name: folder, required: true}, {name: fields, rest: true}]}
  find: {description: Find, method: GET, path: "/notes/{folder}", risk: {level: low}, args: [{name: folder, required: true}, {name: fields, rest: true}]}
  push: {description: Push, method: POST, path: "/git/{folder}/git-receive-pack", risk: {level: low}, args: [{name: folder, required: true}, {name: pack}], request: {body: "{pack}", body_type: raw}}
`

const folderRules = `version: 1
rules:
  - {name: no-shown, match: {action: up.file}, when: 'args.folder == "prod" && args.?shown.orValue("") == "all"', then: deny}
  - {name: no-fields, match: {action: [up.note, up.find]}, when: 'args.folder == "prod" && args.?fields.?shown.orValue("") == "all"', then: deny}
  - {name: no-main, match: {action: up.push}, when: 'args.folder == "prod" && args.refs.exists(r, r.name == "refs/heads/main")', then: deny}
`

// The body is the same in each reading, also where nobody reads back what it holds.
func TestOtherReadingsHaveTheSameBody(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Services: []string{folders}, Policy: folderRules})
	for _, c := range []struct {
		action runtime.Ref
		args   runtime.Args
		rule   string
	}{
		{"up.file", runtime.Args{"folder": "prod", "shown": "all"}, "no-shown"},
		{"up.file", runtime.Args{"folder": "prod?x", "shown": "all"}, "no-shown"},
		{"up.file", runtime.Args{"folder": "prod#x", "shown": "one"}, ""},
		{"up.file", runtime.Args{"folder": "prod#x", "text": "a"}, ""},
		{"up.part", runtime.Args{"folder": "prod#x", "text": "a"}, "no-shown"}, // as which it may be anything
		{"up.note", runtime.Args{"folder": "prod", "shown": "all"}, "no-fields"},
		{"up.note", runtime.Args{"folder": "prod#x", "shown": "all"}, "no-fields"},
		{"up.note", runtime.Args{"folder": "prod#x", "shown": "one"}, ""},
		{"up.find", runtime.Args{"folder": "prod#x", "shown": "all"}, "no-fields"},
	} {
		req := &runtime.Request{Surface: runtime.SurfaceCall, Caller: k.App.Local(), Action: c.action, Args: c.args, Unattended: true}
		err := runtime.AsError(k.App.Pipeline().Do(t.Context(), req, &app.Answer{}))
		if passed := err == nil; passed != (c.rule == "") || !passed && err.Rule != c.rule {
			t.Errorf("%s %v: %v", c.action, c.args, err)
		}
	}
	for push, status := range map[string]int{"/git/pr%256Fd": 403, "/git/caf%25C3%25A9": 200} {
		a := k.Do(t, "POST https://"+apptest.Host+push+"/git-receive-pack", pushOf(oldID+" "+newID+" refs/heads/main")+"PACK")
		if a.Status != status || status == 403 && (a.Problem.Rule != "no-main" || a.Problem.Reason != "") {
			t.Errorf("%s: %d %+v", push, a.Status, a.Problem)
		}
	}
}

// A request that waited for a person is judged by its body in each reading, as it was before.
func TestOtherReadingsOfARequestThatWaitedHaveItsBody(t *testing.T) {
	t.Parallel()
	const service = `name: items
version: 1.0.0
description: Items, for tests
base_url: https://api.notes.test
auth: {type: bearer, credential_ref: notes.token}
actions:
  make: {description: Make, method: POST, path: "/items/{name}", risk: {level: low}, args: [{name: name, required: true}, {name: kind}], request: {body: {kind: "{kind}"}}}
  mark: {description: Mark, method: POST, path: "/items/{name}/mark", risk: {level: low}, args: [{name: name, required: true}, {name: kind}], request: {body: {kind: "{kind}"}}}
`
	const rules = `version: 1
rules:
  - {name: no-gold, match: {action: items.make}, when: 'args.kind == "gold"', then: deny}
  - {name: ask, match: {action: items.mark}, when: 'args.kind != "none"', then: require_approval}
`
	for _, elsewhere := range []bool{false, true} {
		k := apptest.New(t, apptest.Options{Services: []string{service}, Policy: rules})
		const line = "POST https://" + apptest.Host + "/items/fix%23123/mark"
		if a := k.Do(t, line, `{"kind":"gold"}`); a.Problem.Rule != "no-gold" {
			t.Errorf("%d %+v", a.Status, a.Problem)
		}
		a := k.Do(t, line, `{"kind":"tin"}`)
		if a.Problem.Approval == "" {
			t.Fatalf("%d %+v", a.Status, a.Problem)
		}
		if _, err := k.Open(t, "person").Accept(t.Context(), a.Problem.Approval, app.Yes{}); err != nil {
			t.Fatal(err)
		}
		if elsewhere {
			_, _, err := k.Open(t, "other").WaitApproval(t.Context(), a.Problem.Approval, &app.Answer{}, nil)
			if err != nil || len(k.Up.Requests()) != 1 {
				t.Errorf("by another process: %v", err)
			}
		} else if again := k.Do(t, line, `{"kind":"tin"}`); again.Status != 200 {
			t.Errorf("%d %+v", again.Status, again.Problem)
		}
	}
}
