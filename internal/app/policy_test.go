package app_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

const noSecretNotes = `version: 1
rules:
  - name: no-secret-notes
    match: {action: notes.create-note, surface: proxy}
    when: args.text.contains("secret") || request.body.?public == optional.of(true)
    then: deny
    reason: not here
`

// A rule that looks at the body has it read, and judges the bytes that are sent;
// a body that cannot be judged does not pass.
func TestAConditionOnTheBody(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: noSecretNotes})
	post := "POST https://" + apptest.Host + "/notes"
	for _, c := range []struct {
		body         string
		status       int
		code, reason string
	}{
		{`{"text":"hello"}`, 200, "", ""},
		{`{"text":"a secret"}`, 403, "forbidden", ""},
		{`{"text":"hello","public":true}`, 403, "forbidden", ""},
		{`{"text":"hello","text":"a secret"}`, 400, "invalid_input", "duplicate_key"},
		{`{"public":false}`, 403, "forbidden", "condition_failed"},
		{`{"text":`, 400, "invalid_input", "invalid_json"},
		{strings.Repeat(" ", 2<<20) + `{"text":"hello"}`, 413, "invalid_input", "body_too_large"},
	} {
		before := len(k.Up.Requests())
		a := k.Do(t, post, c.body)
		if a.Status != c.status || string(a.Problem.Code) != c.code || string(a.Problem.Reason) != c.reason {
			t.Errorf("%.40s: %d %+v", c.body, a.Status, a.Problem)
		}
		sent := k.Up.Requests()[before:]
		if (len(sent) == 1) != (c.status == 200) {
			t.Errorf("%.40s: the upstream got %d requests", c.body, len(sent))
		}
		if len(sent) == 1 && string(sent[0].Body) != c.body {
			t.Errorf("the upstream got %q", sent[0].Body)
		}
	}
	if a := k.Do(t, getNoteLine, ""); a.Status != 200 {
		t.Errorf("another action: %d", a.Status)
	}
}

const getNoteLine = "GET https://" + apptest.Host + "/notes/1"

const polite = `version: 1
rules:
  - name: polite
    match: {service: notes}
    limit: {rate: 3/h, per: agent}
`

// Over a limit: 429 with Retry-After, recorded, nothing sent. The bucket is one
// for all processes over a home and outlives them; agents have their own.
func TestALimitHoldsOverProcesses(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: polite})
	mark := k.Mark(t)
	passed := 0
	for range 6 {
		a := k.Do(t, getNoteLine, "")
		if a.Status == http.StatusOK {
			passed++
			continue
		}
		wait, err := strconv.Atoi(a.Header.Get("Retry-After"))
		if a.Status != 429 || a.Problem.Code != "rate_limited" || a.Problem.Reason != "over_limit" || a.Problem.Rule != "polite" || err != nil || wait < 1 || wait > 1200 {
			t.Errorf("%d %v %+v", a.Status, a.Header, a.Problem)
		}
	}
	if sent := len(k.Up.Requests()); passed != 3 || sent != 3 {
		t.Errorf("%d passed, %d were sent", passed, sent)
	}
	refused := 0
	for _, r := range k.Await(t, mark, 9) {
		if r.Kind == "refusal" && r.Code == "rate_limited" && r.Reason == "over_limit" {
			refused++
		}
	}
	if refused != 3 {
		t.Errorf("%d refusals were recorded", refused)
	}
	other := k.Open(t, "proxy-2")
	at := k.Serve(t, other, app.ServeOptions{Listen: "127.0.0.1:0"})
	if a := apptest.Send(t, k.ClientOf(t, at, ""), getNoteLine, ""); a.Status != 429 {
		t.Errorf("another process: %d", a.Status)
	}
	secret, _, err := k.App.CreateToken(t.Context(), app.TokenGrant{Agent: "other", Scopes: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if a := apptest.Send(t, k.Client(t, secret.Reveal()), getNoteLine, ""); a.Status != 200 {
		t.Errorf("another agent: %d %+v", a.Status, a.Problem)
	}
}

// CB-078: one limit holds across all ways in: fifty requests of one token at once, by
// the proxy, the API and scripts, of which five pass.
func TestCB078OneLimitAcrossAllWaysIn(t *testing.T) {
	t.Parallel()
	k, sidecar := scripting(t, apptest.Options{Policy: strings.ReplaceAll(polite, "3/h", "5/h")})
	api := k.ServeAPI(t, app.APIOptions{})
	secret, _, err := k.App.CreateToken(t.Context(), app.TokenGrant{Agent: "one", Scopes: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	token := secret.Reveal()
	client := k.Client(t, token)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { apptest.Send(t, client, getNoteLine, "") })
		wg.Go(func() {
			r, err := http.NewRequest(http.MethodPost, api+"/v1/actions/notes/get-note:execute", strings.NewReader(`{"input":{"id":1}}`))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+token)
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			_ = answer.Body.Close()
		})
	}
	wg.Go(func() {
		post(t, sidecar, "/v1/exec", map[string]any{"code": `let n = 0; for (let i = 0; i < 10; i++) await tools.notes.getNote({id: 1}).then(() => n++, () => 0); return n`}, token)
	})
	wg.Wait()
	if sent := len(k.Up.Requests()); sent != 5 {
		t.Errorf("%d of 50 were sent", sent)
	}
}

// A token's groups are what rules match.
func TestGroupsOfATokenMatch(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: "version: 1\nrules: [{name: leads, match: {group: leads}, when: '\"leads\" in principal.groups', then: deny}]\n"})
	for group, status := range map[string]int{"leads": 403, "eu": 200} {
		secret, _, err := k.App.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Groups: []string{group}, Scopes: []string{"*"}, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if a := apptest.Send(t, k.Client(t, secret.Reveal()), getNoteLine, ""); a.Status != status {
			t.Errorf("group %s: %d", group, a.Status)
		}
	}
}

// A folder of policies is one policy; a change of any file in it reloads, and a
// mistake in any keeps the old state.
func TestAFolderOfPoliciesReloads(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("10-reads.yaml", "version: 1\nrules: [{name: reads, match: {action: notes.get-note}, then: allow}]\n")
	write("README.md", "not a policy")
	k := apptest.New(t, apptest.Options{Config: "policy: {path: " + folder + "}\n"})
	if a := k.Do(t, getNoteLine, ""); a.Status != 200 {
		t.Fatal(a.Status)
	}
	write("00-first.yaml", "version: 1\nrules: [{name: stop, match: {action: notes.get-note}, then: deny}]\n")
	apptest.Within(t, soon, "the new file", func() bool { return k.Do(t, getNoteLine, "").Problem.Rule == "stop" })
	write("20-broken.yaml", "version: 1\nrules: [{name: stop, match: {}, then: allow}]\n")
	apptest.Within(t, soon, "status naming the file", func() bool {
		return strings.Contains(k.App.Proxies()[0].Problem, "20-broken.yaml:2:16: rule \"stop\" is already in")
	})
	if a := k.Do(t, getNoteLine, ""); a.Problem.Rule != "stop" {
		t.Errorf("the old state did not stay: %d", a.Status)
	}
}

const askAboutSecrets = `version: 1
rules:
  - name: secrets-are-asked
    match: {action: notes.create-note}
    when: args.text.contains("secret") && request.body.text != "x"
    then: require_approval
`

// A request that a rule on its body asked about is executed by whoever waits for
// it: retried or by `approve wait`, judged by the same bytes again.
func TestWhatARuleOnTheBodyAskedAboutIsExecuted(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askAboutSecrets})
	person := k.Open(t, "")
	if a := k.Do(t, write, `{"text":"plain"}`); a.Status != 200 {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	for name, again := range map[string]func(id string) int{
		"retried": func(string) int { return k.Do(t, write, `{"text":"secret retried"}`).Status },
		"waited": func(id string) int {
			answer := &app.Answer{}
			if _, _, err := person.WaitApproval(t.Context(), id, answer, nil); err != nil {
				t.Errorf("%+v", err)
			}
			return answer.Status
		},
	} {
		asked := k.Do(t, write, `{"text":"secret `+name+`"}`)
		if asked.Problem.Code != "approval_pending" || asked.Problem.Rule != "secrets-are-asked" {
			t.Fatalf("%s: %d %+v", name, asked.Status, asked.Problem)
		}
		if _, err := person.Accept(t.Context(), asked.Problem.Approval, app.Yes{}); err != nil {
			t.Fatal(err)
		}
		if status := again(asked.Problem.Approval); status != 200 {
			t.Errorf("%s: %d", name, status)
		}
		if got := string(k.Up.Last(t).Body); got != `{"text":"secret `+name+`"}` {
			t.Errorf("%s: sent %s", name, got)
		}
	}
}

// Of two who add a rule at once each is in the policy, or was told that it is not.
func TestRulesThatAreAddedAtOnceAreNotLost(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	people := []*app.App{k.Open(t, ""), k.Open(t, "")}
	var added []string
	for i := range 30 {
		var wg sync.WaitGroup
		errs := make([]error, len(people))
		for j, person := range people {
			wg.Go(func() {
				errs[j] = person.AddRule(t.Context(), fmt.Sprintf("{name: rule-%d-%d, match: {action: notes.get-note}, then: allow}", i, j), "")
			})
		}
		wg.Wait()
		for j, err := range errs {
			if err == nil {
				added = append(added, fmt.Sprintf("rule-%d-%d,", i, j))
			} else if !strings.Contains(err.Error(), "was changed meanwhile") {
				t.Error(err)
			}
		}
	}
	if len(added) < 30 { // whoever is first was not overtaken
		t.Errorf("of 30 at least, %d were added", len(added))
	}
	text := stored(t, k, "policy.yaml")
	for _, name := range added {
		if !strings.Contains(text, name) {
			t.Errorf("%s was added and is not there", name)
		}
	}
}

// A policy that is a link stays one, whoever changes it: what it leads to is replaced, if
// nobody else can write that.
func TestALinkedPolicyIsChangedWhereItLeads(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Config: "policy: {source: api}\n"})
	c := newAPI(t, k)
	admin, _ := tokenOf(t, k, app.TokenGrant{Roles: []string{runtime.RoleAdmin}})
	file, link := filepath.Join(t.TempDir(), "rules.yaml"), filepath.Join(k.Dir, "policy.yaml")
	const deny = "version: 1\nrules:\n  - {name: shut, match: {action: notes.get-note}, then: deny}\n"
	text := func() string {
		t.Helper()
		if to, err := os.Readlink(link); err != nil || to != file {
			t.Errorf("the link is %q, %v", to, err)
		}
		now, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return string(now)
	}
	put := func(text string) heard {
		tag := c.ask(t, admin, "GET", "/v1/policy", "").Header.Get("ETag")
		return c.ask(t, admin, "PUT", "/v1/policy", text, "Content-Type", "application/yaml", "If-Match", tag)
	}
	if err := errors.Join(os.WriteFile(file, []byte(askDeletes), 0o640), os.Chmod(file, 0o640), os.Remove(link), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	person := k.Open(t, "")
	if got := put(deny); got.Status != 204 || text() != deny {
		t.Errorf("%d %s, %q", got.Status, got.Body, text())
	}
	if err := person.AddRule(t.Context(), "{name: more, match: {action: notes.read-as}, then: allow}", ""); err != nil || !strings.Contains(text(), "more") {
		t.Errorf("%v, %q", err, text())
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}

	if err := errors.Join(os.WriteFile(file, []byte(deny), 0o640), os.Chmod(file, 0o666)); err != nil { // and what is in it may be anybody's
		t.Fatal(err)
	}
	if err := person.AddRule(t.Context(), "{name: late, match: {action: notes.read-as}, then: allow}", ""); err == nil || text() != deny {
		t.Errorf("a rule was added to what others can write: %v, %q", err, text())
	}
	if got := put(askDeletes); got.Status == 204 || text() != deny {
		t.Errorf("what others can write was replaced: %d, %q", got.Status, text())
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := person.AddRule(t.Context(), "{name: late, match: {action: notes.read-as}, then: allow}", ""); err == nil || text() != "" {
		t.Errorf("a rule was added to what is not there: %v", err)
	}
	if got := put(deny); got.Status == 204 || text() != "" {
		t.Errorf("a link that leads nowhere was replaced: %d", got.Status)
	}
}
