package app_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// Who sends rules over the network is told what is wrong with them by place and by a name that
// it knows: never where they are kept on the server's machine.
func TestAWrongPolicyIsNamedAsItsSenderKnowsIt(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Config: "policy: {source: api}\n"})
	c := newAPI(t, k)
	admin, _ := tokenOf(t, k, app.TokenGrant{Roles: []string{runtime.RoleAdmin}})
	put := func(text string) heard {
		t.Helper()
		tag := c.ask(t, admin, "GET", "/v1/policy", "").Header.Get("ETag")
		got := c.ask(t, admin, "PUT", "/v1/policy", text, "Content-Type", "application/yaml", "If-Match", tag)
		if got.Status < 400 || strings.Contains(got.Body, k.Dir) || strings.Contains(got.Body, "trial") || strings.Contains(got.Body, os.TempDir()) {
			t.Errorf("%d %s", got.Status, got.Body)
		}
		return got
	}
	for text, want := range map[string]string{
		"version: 1\nrules: [{nonsense: 1}]\n":                        "policy.yaml:2:9: ",
		"version: 1\nrules:\n- {name: a, match: {}, then: perhaps}\n": "policy.yaml:3:",
		"version: 1\nrules: [":                                        "policy.yaml:2:",
		"version: 1\nrules:\n- {name: a, match: {action: notes.get-note}, when: 'args.x', then: deny}": "policy.yaml:3:",
	} {
		if got := put(text); got.Status != 400 || !strings.HasPrefix(got.problem(t).Detail, want) {
			t.Errorf("%q: %d %s", text, got.Status, got.Body)
		}
	}
	link, others := filepath.Join(k.Dir, "policy.yaml"), filepath.Join(t.TempDir(), "rules.yaml")
	if err := errors.Join(os.WriteFile(others, []byte("version: 1\n"), 0o600), os.Chmod(others, 0o666), os.Remove(link), os.Symlink(others, link)); err != nil {
		t.Fatal(err)
	}
	put("version: 1\n") // others can write it
	if err := os.Remove(others); err != nil {
		t.Fatal(err)
	}
	put("version: 1\n") // the link leads to nothing
}

// What is refused over the network is refused in names that its sender has: members of the
// body and parameters, where a terminal has flags.
func TestRefusalsOverTheNetworkNameMembers(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c := newAPI(t, k)
	token := operatorOf(t, k)
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	held := c.ask(t, agent, "POST", "/v1/actions/notes/delete-note:execute", `{"input":{"id":1}}`).problem(t).ApprovalID
	accept := "POST /v1/approvals/" + held + ":accept"
	for _, try := range []struct{ page, body, hint string }{
		{"POST /v1/tokens", `{"agent":"","scopes":["*"]}`, `"agent": "ci"`},
		{"POST /v1/tokens", `{"agent":"x"}`, `"scopes": ["github.list-*"]`},
		{"POST /v1/tokens", `{"agent":"x","scopes":["a b"]}`, `"scopes": ["github.list-*"]`},
		{"POST /v1/tokens", `{"agent":"x","scopes":["*"],"roles":["a b"]}`, `"roles": ["developer"]`},
		{"POST /v1/tokens", `{"agent":"x","scopes":["*"],"roles":["kimbap.opertor"]}`, `"roles": ["kimbap.operator"]`},
		{"POST /v1/tokens", `{"agent":"x","scopes":["*"],"groups":["a b"]}`, `"groups": ["leads"]`},
		{"POST /v1/tokens", `{"agent":"x","scopes":["*"],"ttl":"10000h"}`, `"ttl": "1h"`},
		{"PUT /v1/vault/notes.token", `{"value":""}`, `send it as "value"`},
		{"PUT /v1/vault/notes.token", `{"hosts":["a.example:443"]}`, `send it as "value"`},
		{"PUT /v1/vault/nobodys.key", `{"value":"some-value-1234"}`, `"hosts": ["api.example.com:443"]`},
		{"PUT /v1/vault/nobodys.key", `{"value":"some-value-1234","hosts":["a b"]}`, `"hosts": ["api.example.com:443"]`},
		{accept, `{"for":"1ms"}`, `"for": "10m"`},
		{accept, `{"for":"1000h"}`, `"for": "10m"`},
		{accept, `{"run":true}`, `say how long instead: "for": "10m"`},
		{"POST /v1/approvals/apr_none:accept", `{}`, `look for it among all approvals: GET /v1/approvals?all=true`},
		{"POST /v1/actions/notes/get-note:execute", `{"input":{"id":1},"all":true}`, `leave all and max out`},
		{"POST /v1/actions/notes/get-note:execute", `{"input":{"id":"x"}}`, `describe notes.get-note: GET /v1/actions/notes/get-note`},
		{"POST /v1/actions/notes/zzz:execute", `{"input":{}}`, `search for it, or list the actions: GET /v1/actions`},
	} {
		method, path, _ := strings.Cut(try.page, " ")
		got := c.ask(t, token, method, path, try.body)
		if p := got.problem(t); got.Status < 400 || p.Hint != try.hint || strings.Contains(p.Detail, "--") || strings.Contains(p.Detail, "stdin") {
			t.Errorf("%s %s: %d %s; %s", try.page, try.body, got.Status, p.Detail, p.Hint)
		}
	}
}
