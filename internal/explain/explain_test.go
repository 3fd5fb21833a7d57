package explain_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/explain"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

const notes = `name: notes
version: 1.0.0
base_url: https://notes.test
auth: {type: bearer, credential_ref: notes.token}
actions:
  get-note: {method: GET, path: "/notes/{id}"}
  create-note: {method: POST, path: /notes, risk: {level: high}}
`

const calls = `name: calls
version: 1.0.0
base_url: https://calls.test
auth: {type: basic, basic: {username_ref: calls.sid, password_ref: calls.token}}
actions:
  get-call: {method: GET, path: "/calls/{id}"}
`

var now = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// keys are what is stored.
type keys []vault.Entry

func (k keys) List(context.Context, runtime.Tenant) ([]vault.Entry, error) { return k, nil }

func explainer(t *testing.T, stored ...vault.Entry) explain.Explainer {
	t.Helper()
	return explainerOf(t, notes, stored...)
}

func explainerOf(t *testing.T, service string, stored ...vault.Entry) explain.Explainer {
	t.Helper()
	set := servicestest.Set(t, "service.yaml", service)
	rules, err := policy.Compile(nil, policy.File{Name: "policy.yaml", Data: []byte("version: 1\nrules:\n  - {name: no-writes, match: {action: notes.create-note}, then: deny}\n")})
	if err != nil {
		t.Fatal(err)
	}
	return explain.Explainer{
		Services: services.NewLive(set), Policy: policy.NewLive(policy.Set{runtime.DefaultTenant: rules}), Vault: keys(stored),
		Locked: func() *runtime.Error { return nil }, Clock: func() time.Time { return now },
		Who: func(context.Context) (runtime.Principal, error) {
			return runtime.Principal{ID: "me", Tenant: runtime.DefaultTenant, Scopes: []runtime.Scope{"*"}}, nil
		},
	}
}

func TestWhatIsSaidOfARequest(t *testing.T) {
	key := vault.Entry{Name: "notes.token", Version: 3, Authorities: []string{"notes.test:443"}}
	over, elsewhere := key, key
	over.Expires, elsewhere.Authorities = now, []string{"other.test:443"}
	for about, c := range map[string]struct {
		method, url string
		stored      []vault.Entry
		want        explain.Explanation // what is given of it
	}{
		"a read":              {"GET", "https://notes.test/notes/7", []vault.Entry{key}, explain.Explanation{Host: "intercepted", Action: "notes.get-note", Effect: "allow", Credential: "notes.token, version 3"}},
		"nothing stored":      {"GET", "https://notes.test/notes/7", nil, explain.Explanation{Host: "intercepted", Action: "notes.get-note", Credential: "not stored"}},
		"an expired key":      {"GET", "https://notes.test/notes/7", []vault.Entry{over}, explain.Explanation{Host: "intercepted", Credential: "expired"}},
		"another host's key":  {"GET", "https://notes.test/notes/7", []vault.Entry{elsewhere}, explain.Explanation{Host: "intercepted", Credential: "not for this host"}},
		"a write":             {"POST", "https://notes.test/notes", nil, explain.Explanation{Host: "intercepted", Action: "notes.create-note", Effect: "deny", Rule: "no-writes"}},
		"no action":           {"GET", "https://notes.test/other", nil, explain.Explanation{Host: "intercepted", Refused: "unmatched"}},
		"an encoded slash":    {"GET", "https://notes.test/notes/a%2fb", nil, explain.Explanation{Host: "intercepted", Refused: "`allow_slash: true`"}},
		"what is ambiguous":   {"GET", "https://notes.test/notes/%2e%2e/7", nil, explain.Explanation{Host: "intercepted", Refused: "dot"}},
		"in the clear":        {"GET", "http://notes.test/notes/7", nil, explain.Explanation{Host: "refused", Refused: "insecure_scheme"}},
		"nobody's host":       {"GET", "https://other.test/", nil, explain.Explanation{Host: "passed", Credential: "none"}},
		"a host of two words": {"GET", "https://other..test/", nil, explain.Explanation{Host: "refused"}},
	} {
		t.Run(about, func(t *testing.T) {
			got, err := explainer(t, c.stored...).Explain(t.Context(), c.method, c.url)
			if err != nil {
				t.Fatal(err)
			}
			for what, pair := range map[string][2]string{
				"host": {got.Host, c.want.Host}, "action": {string(got.Action), string(c.want.Action)}, "effect": {got.Effect, c.want.Effect},
				"rule": {got.Rule, c.want.Rule}, "credential": {got.Credential, c.want.Credential}, "refused": {got.Refused, c.want.Refused},
			} {
				if !strings.Contains(pair[0], pair[1]) {
					t.Errorf("%s: %q, want %q", what, pair[0], pair[1])
				}
			}
			if (got.Refused == "") != (c.want.Refused == "") && c.want.Host != "refused" {
				t.Errorf("refused: %q", got.Refused)
			}
		})
	}
}

// A password is of no use without the user name that goes with it.
func TestTheUserNameOfAKeyIsLookedAt(t *testing.T) {
	key := vault.Entry{Name: "calls.token", Version: 1, Authorities: []string{"calls.test:443"}}
	user := vault.Entry{Name: "calls.sid", Version: 2, Authorities: key.Authorities}
	over, elsewhere, keyOver := user, user, key
	over.Expires, elsewhere.Authorities, keyOver.Expires = now, []string{"other.test:443"}, now
	for about, c := range map[string]struct {
		stored []vault.Entry
		want   string
	}{
		"both":                  {[]vault.Entry{user, key}, "calls.sid, version 2"},
		"none":                  {[]vault.Entry{key}, "calls.sid: not stored, so requests are refused (kimbap vault set calls.sid)"},
		"an expired one":        {[]vault.Entry{key, over}, "calls.sid: expired, so requests are refused (kimbap vault set calls.sid)"},
		"another host's":        {[]vault.Entry{key, elsewhere}, "calls.sid, version 2, not for this host (kimbap link calls --rebind)"},
		"none, and no password": {nil, ""},
		"an expired password":   {[]vault.Entry{keyOver}, ""},
	} {
		got, err := explainerOf(t, calls, c.stored...).Explain(t.Context(), "GET", "https://calls.test/calls/7")
		if err != nil || got.Username != c.want {
			t.Errorf("%s: user name %q, want %q (credential %q, %v)", about, got.Username, c.want, got.Credential, err)
		}
	}
}

// Where the path decides by another reading, that one is shown, with its rules: those of what
// was written say the contrary.
func TestTheReadingThatDecidedIsShown(t *testing.T) {
	e := explainer(t)
	rules, err := policy.Compile(nil, policy.File{Name: "policy.yaml", Data: []byte("version: 1\nrules:\n  - {name: not-this, match: {action: notes.*}, when: args.id == \"7\", then: deny}\n")})
	if err != nil {
		t.Fatal(err)
	}
	e.Policy = policy.NewLive(policy.Set{runtime.DefaultTenant: rules})
	for url, want := range map[string]string{"https://notes.test/notes/7%3Fx": "7", "https://notes.test/notes/7": "", "https://notes.test/notes/8%3Fx": ""} {
		x, err := e.Explain(t.Context(), "GET", url)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			if x.ReadAs != nil {
				t.Errorf("%s: read as %+v", url, x.ReadAs)
			}
			continue
		}
		if r := x.ReadAs; x.Effect != "deny" || r == nil || r.Args["id"] != want || r.Action != x.Action || len(r.Steps) == 0 || !r.Steps[0].Matched || x.Steps[0].Matched {
			t.Errorf("%s: %+v, read as %+v", url, x, x.ReadAs)
		}
	}
}

// A token is asked about with its scopes, which come before every rule, for each reading.
func TestScopesAreAskedBeforeRules(t *testing.T) {
	e := explainer(t)
	for _, c := range []struct{ scope, url, effect, rule string }{
		{"notes.get-note", "https://notes.test/notes/7", "allow", ""},
		{"notes.create-note", "https://notes.test/notes/7", "deny", "scope"},
		{"notes.create-note", "https://other.test/", "deny", "scope"},
		{"net.pass", "https://other.test/", "allow", ""},
	} {
		e.Who = func(context.Context) (runtime.Principal, error) {
			return runtime.Principal{ID: "me", Tenant: runtime.DefaultTenant, Scopes: []runtime.Scope{runtime.Scope(c.scope)}}, nil
		}
		x, err := e.Explain(t.Context(), "GET", c.url)
		if err != nil || x.Effect != c.effect || !strings.Contains(x.Rule, c.rule) || (c.rule == "scope") != (len(x.Steps) == 0) {
			t.Errorf("%s with %s: %s by %s, steps %v (%v), want %s by %s", c.url, c.scope, x.Effect, x.Rule, x.Steps, err, c.effect, c.rule)
		}
	}
}

// What servers could read otherwise must be within the scopes as well.
func TestScopesAreAskedOfEachReading(t *testing.T) {
	e := explainerOf(t, strings.Replace(notes, "actions:\n", "actions:\n  get-last: {method: GET, path: /notes/last, risk: {level: low}}\n", 1))
	e.Who = func(context.Context) (runtime.Principal, error) {
		return runtime.Principal{ID: "me", Tenant: runtime.DefaultTenant, Scopes: []runtime.Scope{"notes.get-note"}}, nil
	}
	x, err := e.Explain(t.Context(), "GET", "https://notes.test/notes/7%3Fx")
	if err != nil || x.Effect != "allow" {
		t.Errorf("the same action in each reading: %+v %v", x, err)
	}
	x, err = e.Explain(t.Context(), "GET", "https://notes.test/notes/last%3Fx")
	if err != nil || x.Action != "notes.get-note" || x.Effect != "deny" || x.Rule != "scope" || x.ReadAs == nil || x.ReadAs.Action != "notes.get-last" || len(x.ReadAs.Steps) != 0 {
		t.Errorf("a path that is get-last to some: %+v, read as %+v, %v", x, x.ReadAs, err)
	}
}

func TestWhatIsNoURLIsRefused(t *testing.T) {
	for _, url := range []string{"", "notes.test/notes", "ftp://notes.test/", "https://"} {
		if x, err := explainer(t).Explain(t.Context(), "GET", url); runtime.CodeOf(err) != runtime.CodeInvalidInput {
			t.Errorf("%q: %+v %v", url, x, err)
		}
	}
}

// Of whom nobody knows, nothing is decided.
func TestAStrangerIsToldNothing(t *testing.T) {
	e, away := explainer(t), errors.New("no such token")
	e.Who = func(context.Context) (runtime.Principal, error) { return runtime.Principal{}, away }
	if x, err := e.Explain(t.Context(), "GET", "https://notes.test/notes/7"); !errors.Is(err, away) || x.Effect != "" {
		t.Errorf("%+v %v", x, err)
	}
}

// A closed vault says nothing of what is stored, and the action is explained all the same.
func TestAClosedVaultIsSaid(t *testing.T) {
	e := explainer(t)
	e.Locked = func() *runtime.Error { return &runtime.Error{Code: runtime.CodeVaultLocked, Msg: "since noon"} }
	x, err := e.Explain(t.Context(), "GET", "https://notes.test/notes/7")
	if err != nil || x.Effect != "allow" || x.Credential != "notes.token: requests are refused (vault_locked): since noon" {
		t.Errorf("%+v %v", x, err)
	}
}
