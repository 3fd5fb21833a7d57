package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// A version of a service with which the policy could not be read is not installed: what runs
// would refuse it, and the next start would fail. Nor is one put in force again.
func TestAServiceThatThePolicyDoesNotFitIsNotInstalled(t *testing.T) {
	t.Parallel()
	const rules = "version: 1\nrules:\n  - {name: words, match: {action: notes.create-note}, when: 'args.text == \"a\"', then: deny}\n"
	k := apptest.New(t, apptest.Options{Policy: rules})
	owner := k.Open(t, "")
	next := strings.Replace(apptest.Notes, "name: text,", "name: words,", 1)
	file := filepath.Join(t.TempDir(), "notes.yaml")
	if err := os.WriteFile(file, []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(err error) {
		t.Helper()
		if e := runtime.AsError(err); err == nil || e.Code != runtime.CodeInvalidInput || !strings.Contains(e.Msg, "policy.yaml") || !strings.Contains(e.Msg, "text") || !strings.Contains(e.Hint, "when") {
			t.Errorf("%v; %s", err, e.Hint)
		}
	}
	_, err := owner.Install(t.Context(), app.Install{From: file, Update: true})
	refused(err)
	apptest.OpenWith(t, apptest.OptionsOver(k.Dir, "next", k.Log, false)) // starts
	if err := owner.DisableService(t.Context(), "notes"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(k.Dir, "services", "notes.yaml.disabled"), []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(owner.EnableService(t.Context(), "notes"))

	k.Write(t, "policy.yaml", strings.Replace(rules, `when: 'args.text == "a"', `, "", 1)) // as the hint says
	if _, err := owner.Install(t.Context(), app.Install{From: file, Update: true}); err != nil {
		t.Error(err)
	}
	k.Write(t, "policy.yaml", strings.Replace(rules, "args.text", "args.words", 1))
	apptest.OpenWith(t, apptest.OptionsOver(k.Dir, "last", k.Log, false))
}
