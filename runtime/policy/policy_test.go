package policy_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
)

// archive reads one txtar file as a map of its sections: "-- name --" begins
// one, what stands before the first is a comment.
func archive(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sections, name := map[string]string{}, ""
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "-- "); ok && strings.HasSuffix(rest, " --\n") {
			name = strings.TrimSuffix(rest, " --\n")
			sections[name] = ""
			continue
		}
		sections[name] += line
	}
	return sections
}

// each runs test for every archive in a folder of testdata.
func each(t *testing.T, folder string, test func(t *testing.T, path string, sections map[string]string)) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no archives in %s: %v", folder, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			test(t, path, archive(t, path))
		})
	}
}

// question reads "key=value key=value …". What is not named is an ordinary
// read by an agent through the proxy.
func question(t *testing.T, text string) runtime.Question { return ask(t, text, nil) }

func ask(t *testing.T, text string, known schemas) runtime.Question {
	t.Helper()
	principal := &runtime.Principal{Kind: runtime.KindAgent, Agent: "local", Tenant: runtime.DefaultTenant}
	action := &runtime.Action{Risk: runtime.RiskLow}
	request := &runtime.Request{Surface: runtime.SurfaceProxy, Raw: &runtime.Raw{Header: http.Header{}}}
	var args runtime.Args
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	request.Target = runtime.Target{Scheme: "https", Authority: "api.example.com:443", Method: "GET", Path: "/"}
	for _, pair := range strings.Fields(text) {
		key, value, _ := strings.Cut(pair, "=")
		switch key {
		case "action":
			action.Ref = runtime.Ref(value)
			action.Service, action.Name, _ = strings.Cut(value, ".")
		case "risk":
			action.Risk = runtime.Risk(value)
		case "agent":
			principal.Agent = value
		case "role":
			principal.Roles = strings.Split(value, ",")
		case "tenant":
			principal.Tenant = runtime.Tenant(value)
		case "host":
			request.Target.Authority = value
		case "method":
			request.Target.Method = value
		case "surface":
			request.Surface = runtime.Surface(value)
		case "built":
			request.Target, request.Raw = runtime.Target{}, nil
			action.HTTP = &runtime.HTTPSpec{Authorities: []string{value}, Method: "POST"}
		case "tunnel": // to a host without a service, before anything goes through it
			request.Target = runtime.Target{Scheme: "tcp", Authority: value, Method: "CONNECT"}
			action.Ref, action.Service, action.Name, action.Risk = "net.pass", "net", "pass", runtime.RiskUnmatched
		case "group":
			principal.Groups = strings.Split(value, ",")
		case "path":
			request.Target.Path = value
		case "args", "document":
			decoder := json.NewDecoder(strings.NewReader(value))
			decoder.UseNumber()
			var document any
			if err := decoder.Decode(&document); err != nil {
				t.Fatalf("%s: %v", pair, err)
			}
			if key == "args" {
				args = document.(map[string]any)
			} else {
				request.Document, request.Parsed = document, true
			}
		case "body": // there is one, and nobody has read it
			request.Raw.Body = strings.NewReader(value)
		case "header":
			name, text, _ := strings.Cut(value, ":")
			request.Raw.Header.Add(name, text)
		case "now":
			at, err := time.Parse(time.RFC3339, value)
			if err != nil {
				t.Fatal(err)
			}
			now = at
		default:
			t.Fatalf("the case has no key %q", key)
		}
	}
	if declared, ok := known.Action(string(action.Ref)); ok {
		action.Params, action.Rest = declared.Params, declared.Rest
	}
	return runtime.Question{Principal: principal, Action: action, Args: args, Request: request, Now: now}
}

// schemas are the actions that a case declares, one a line: its name, then its
// arguments as name:type or, when the body has them, name:type@body.
type schemas map[string]*runtime.Action

func (s schemas) Action(ref string) (*runtime.Action, bool) {
	a, ok := s[ref]
	return a, ok
}

func declared(text string) schemas {
	s := schemas{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		action := &runtime.Action{Ref: runtime.Ref(words[0])}
		for _, word := range words[1:] {
			name, kind, _ := strings.Cut(word, ":")
			kind, place, _ := strings.Cut(kind, "@")
			action.Params = append(action.Params, runtime.Param{Name: name, Type: runtime.ParamType(kind), Body: place == "body"})
		}
		s[words[0]] = action
	}
	return s
}

func TestPoliciesDecideAsTheirCasesSay(t *testing.T) {
	each(t, "decide", func(t *testing.T, path string, sections map[string]string) {
		known := declared(sections["actions"])
		p, err := policy.Compile(known, policy.File{Name: "policy.yaml", Data: []byte(sections["policy.yaml"])})
		if err != nil {
			t.Fatal(err)
		}
		cases := strings.Split(strings.TrimSpace(sections["cases"]), "\n")
		for _, line := range cases {
			asked, want, ok := strings.Cut(line, " -> ")
			if !ok {
				t.Fatalf("not a case: %q", line)
			}
			q := ask(t, asked, known)
			v := p.Decide(q)
			if got := verdict(v); got != want {
				t.Errorf("%s\n got %s\nwant %s", asked, got, want)
			}
			if v.Digest != p.Digest() {
				t.Errorf("%s: digest %q", asked, v.Digest)
			}
		}
	})
}

func verdict(v runtime.Verdict) string {
	text := string(v.Effect) + " " + v.Rule
	if v.Reported {
		text += " would=" + string(v.Would)
		if v.WouldRule != v.Rule {
			text += " by " + v.WouldRule
		}
	}
	if v.Failed {
		text += " (" + v.Reason + ")"
	}
	if v.NeedBody {
		text = "body " + v.Rule
	}
	for _, l := range v.Limits {
		text += " limit=" + strings.ReplaceAll(l.Bucket, "\x00", "/")
	}
	return text
}

// TestProblemsReadAsTheirFilesSay compares the whole text: what a person reads is the behaviour.
func TestProblemsReadAsTheirFilesSay(t *testing.T) {
	each(t, "problems", func(t *testing.T, path string, sections map[string]string) {
		p, err := policy.Compile(declared(sections["actions"]), policy.File{Name: "policy.yaml", Data: []byte(sections["policy.yaml"])})
		if err == nil {
			t.Fatalf("%s was taken for a policy: %s", path, p.Digest())
		}
		if got, want := strings.TrimSpace(err.Error()), strings.TrimSpace(sections["want"]); got != want {
			t.Errorf("got:\n%s\n\nwant:\n%s", got, want)
		}
	})
}

func TestAMissingFileIsTheDefaultPolicyAndABadOneAnError(t *testing.T) {
	folder := t.TempDir()
	missing, err := policy.Load(filepath.Join(folder, "policy.yaml"), nil)
	if err != nil || missing.Digest() != policy.Default().Digest() {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := policy.Load(folder, nil); err == nil {
		t.Error("a folder was read as a policy")
	}
	path := filepath.Join(folder, "bad.yaml")
	if err := os.WriteFile(path, []byte("version: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := policy.Load(path, nil); err == nil || !strings.Contains(err.Error(), path+":1:10: version") {
		t.Errorf("a file with a problem: %v", err)
	}
}

func TestDenyUnmatchedClosesHostsWithoutAService(t *testing.T) {
	question := runtime.Question{
		Principal: &runtime.Principal{ID: "local:1", Tenant: runtime.DefaultTenant},
		Action:    &runtime.Action{Ref: runtime.ActionPass, Risk: runtime.RiskUnmatched, Service: "net"},
		Request:   &runtime.Request{Target: runtime.Target{Scheme: "https", Authority: "example.com:443", Method: "GET"}},
	}
	p := policy.Default()
	if v := p.Decide(question); v.Effect != runtime.EffectAllow {
		t.Fatalf("the default says %s", v.Effect)
	}
	narrow := p.DenyUnmatched()
	if v := narrow.Decide(question); v.Effect != runtime.EffectDeny || v.Rule != "proxy.unmatched" || v.Digest != narrow.Digest() {
		t.Fatalf("narrowed: %+v", v)
	}
	if narrow.DenyUnmatched().Digest() != narrow.Digest() {
		t.Error("narrowed twice, it is another policy")
	}
	if p.Digest() == narrow.Digest() || p.Decide(question).Effect != runtime.EffectAllow {
		t.Fatal("narrowing changed the policy it came from")
	}
}
