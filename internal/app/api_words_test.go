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
