package draft_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/internal/draft"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(runtimetest.Settled{M: apptest.Tidy{M: m}}) }

// The requests that these tests record, and the policy they are judged by.
const (
	getNoteLine   = "GET https://" + apptest.Host + "/notes/1"
	write         = "POST https://" + apptest.Host + "/notes"
	otherHost     = "other.test:443"
	noSecretNotes = `version: 1
rules:
  - name: no-secret-notes
    match: {action: notes.create-note, surface: proxy}
    when: args.text.contains("secret") || request.body.?public == optional.of(true)
    then: deny
    reason: not here
`
)

// drafted reads a policy that is not in force.
func drafted(t *testing.T, a *app.App, text string) *draft.Policy {
	t.Helper()
	file := filepath.Join(t.TempDir(), "draft.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := a.Draft(file)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A bracket in the path of a policy is no pattern.
func TestTestsBesideAPolicyWithABracketInItsPath(t *testing.T) {
	a := (&apptest.Kimbap{Dir: t.TempDir(), Log: &apptest.Buffer{}}).Make(t)
	defer func() { _ = a.Close() }()
	folder := filepath.Join(t.TempDir(), "a[1]")
	want := []string{filepath.Join(folder, "a_test.yml"), filepath.Join(folder, "b_test.yaml")}
	file := filepath.Join(folder, "policy.yaml")
	err := os.Mkdir(folder, 0o700)
	for _, name := range append(want, file) {
		err = errors.Join(err, os.WriteFile(name, []byte(noSecretNotes), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	d, err := a.Draft(file)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := d.TestFiles(); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

// A record holds hashes of body arguments: a draft that looks at them gets no
// answer, never a wrong one; what it holds is judged as it was.
func TestReplayDoesNotGuess(t *testing.T) {
	k := apptest.New(t, apptest.Options{Policy: noSecretNotes})
	mark := k.Mark(t)
	_ = k.Do(t, getNoteLine, "")
	_ = k.Do(t, write, `{"text":"a secret"}`)
	_ = k.Do(t, write, `{"text":"hello"}`)
	k.Await(t, mark, 5)
	for _, c := range []struct {
		rules                  string
		same, changed, unknown int
	}{
		{"[]", 2, 1, 0}, // the denied one would pass
		{`[{name: r, match: {action: notes.get-note}, when: args.id == 1, then: deny}]`, 1, 2, 0},
		{`[{name: r, match: {action: notes.get-note}, when: args.id == 2, then: deny}]`, 2, 1, 0},
		{`[{name: r, match: {action: notes.create-note}, when: 'args.text == "hello"', then: deny}]`, 1, 0, 2},
		{`[{name: r, match: {action: notes.create-note}, when: 'args.?text.orValue("") == "x"', then: deny}]`, 1, 0, 2},
		{`[{name: r, match: {service: notes}, when: 'size(args) > 0', then: deny}]`, 0, 1, 2},
		{`[{name: r, match: {service: notes}, when: 'request.path == "/notes"', then: deny}]`, 2, 1, 0},
		{`[{name: r, match: {service: notes}, when: '"x" in request.query', then: deny}]`, 0, 0, 3},
	} {
		r, err := k.App.Replay(t.Context(), drafted(t, k.App, "version: 1\nrules: "+c.rules+"\n"), app.ReplayQuery{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Requests != 3 || r.Same != c.same || len(r.Changes) != c.changed || len(r.Unknown) != c.unknown {
			t.Errorf("%s: %+v", c.rules, r)
		}
	}
}

// What a suggestion was made of passes or is asked under it, and nothing else
// does; where it is wider than what was, it says so.
func TestSuggestionsAreTheLeast(t *testing.T) {
	k := apptest.New(t, apptest.Options{Policy: noSecretNotes, Resolve: []string{otherHost}})
	mark := k.Mark(t)
	_ = k.Do(t, getNoteLine, "")
	_ = k.Do(t, write, `{"text":"a secret"}`)
	_ = k.Do(t, write, `{"text":"hello"}`)
	_ = k.Do(t, "DELETE https://"+apptest.Host+"/notes/1", "") // asks
	k.Await(t, mark, 7)
	s, err := k.App.Suggest(t.Context(), app.ReplayQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Requests != 4 || s.Kept != 3 || len(s.Wider) != 1 || s.Wider[0].By != "no-secret-notes" {
		t.Errorf("%+v", s)
	}
	if want := []runtime.Scope{"notes.create-note", "notes.delete-note", "notes.get-note"}; !slices.Equal(s.Scopes["local"], want) {
		t.Errorf("%v", s.Scopes)
	}
	d := drafted(t, k.App, s.Policy)
	for action, want := range map[string]runtime.Effect{
		"notes.get-note": "allow", "notes.create-note": "allow", "notes.delete-note": "require_approval",
		"notes.create-key": "deny", "notes.read-as": "deny", "net.pass": "deny",
	} {
		asked := draft.Asked{Action: action, Agent: "local", Tenant: runtime.DefaultTenant, Host: "other.test"}
		judged, err := d.Judge(&asked)
		if err != nil || judged.Verdict.Effect != want {
			t.Errorf("%s: %+v %v", action, judged, err)
		}
	}
	if !strings.Contains(s.Policy, "local-nothing-else") {
		t.Error(s.Policy)
	}
}

// An action that was asked about at times is in one rule, and no other request
// changes for it: the hosts that pass unasked go on doing so. What gets stricter
// is told.
func TestSuggestionsKeepEveryVerdictOrSaySo(t *testing.T) {
	k := apptest.New(t, apptest.Options{Policy: `version: 1
rules:
  - {name: large, match: {action: notes.create-note}, when: args.text.startsWith("large"), then: require_approval}
  - {name: one-host, match: {action: net.pass, host: other.test}, then: require_approval}
`, Resolve: []string{otherHost, "third.test:443"}})
	mark := k.Mark(t)
	_ = k.Do(t, write, `{"text":"large"}`)
	_ = k.Do(t, write, `{"text":"small"}`)
	_, _ = k.Connect(t, otherHost)
	_, _ = k.Connect(t, "third.test:443")
	k.Await(t, mark, 6)
	s, err := k.App.Suggest(t.Context(), app.ReplayQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Requests != 4 || s.Kept != 3 || len(s.Stricter) != 1 || s.Stricter[0].NowBy != "local-asks-at-times" || len(s.Wider) != 0 {
		t.Errorf("%+v", s)
	}
	if !strings.Contains(s.Policy, "by large, and is always here") {
		t.Error(s.Policy)
	}
	d := drafted(t, k.App, s.Policy)
	for host, want := range map[string]runtime.Effect{"third.test": "allow", "other.test": "require_approval", "fourth.test": "deny"} {
		judged, err := d.Judge(&draft.Asked{Action: "net.pass", Agent: "local", Host: host})
		if err != nil || judged.Verdict.Effect != want {
			t.Errorf("%s: %+v %v\n%s", host, judged, err, s.Policy)
		}
	}
}
