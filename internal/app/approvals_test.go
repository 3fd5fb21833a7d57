package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

const askWrites = "version: 1\nrules: [{name: ask, match: {action: notes.create-note}, then: require_approval}]\n"

// write is a request that needs a person.
const write = "POST https://" + apptest.Host + "/notes"

// beat says that somebody watches, as `kimbap approve watch` does.
func beat(t *testing.T, a *app.App) {
	t.Helper()
	if err := a.Approvals().Beat(t.Context(), a.Operator(), runtime.DefaultTenant, time.Minute); err != nil {
		t.Fatal(err)
	}
}

// waiting returns the one approval that waits.
func waiting(t *testing.T, a *app.App) string {
	t.Helper()
	var id string
	apptest.Eventually(t, "an approval that waits", func() bool {
		list, err := a.ListApprovals(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 1 {
			id = list[0].ID
		}
		return id != ""
	})
	return id
}

// A yes is for one request, once.
func TestApprovedRequestExecutesOnce(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites})
	person := k.Open(t, "")
	first := k.Do(t, write, `{"text":"one"}`)
	if first.Status != 403 || first.Problem.Code != "approval_pending" || first.Problem.Approval == "" || first.Header.Get("Retry-After") == "" {
		t.Fatalf("%d %+v %v", first.Status, first.Problem, first.Header)
	}
	if strings.Contains(first.Body, "approve accept") {
		t.Error("the agent is told the command that accepts")
	}
	if again := k.Do(t, write, `{"text":"one"}`); again.Problem.Approval != first.Problem.Approval {
		t.Errorf("a retry asked anew: %+v", again.Problem)
	}
	if _, err := person.Accept(t.Context(), first.Problem.Approval, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	other := k.Do(t, write, `{"text":"two"}`)
	if other.Problem.Code != "approval_pending" || other.Problem.Approval == first.Problem.Approval {
		t.Errorf("another body took the yes: %+v", other.Problem)
	}
	if len(k.Up.Requests()) != 0 {
		t.Fatal("something left before its time")
	}
	k.Await(t, nil, 6) // the outcomes so far
	mark := k.Mark(t)
	if a := k.Do(t, write, `{"text":"one"}`); a.Status != 200 {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
	if got := k.Up.Last(t); string(got.Body) != `{"text":"one"}` || len(k.Up.Requests()) != 1 {
		t.Errorf("%q, %d requests", got.Body, len(k.Up.Requests()))
	}
	r := wantRecords(t, k, mark, "intent require_approval notes.create-note", "outcome require_approval notes.create-note ok -")
	if r[1].Approval != first.Problem.Approval {
		t.Errorf("the outcome does not name its approval: %s", r[1].Line)
	}
	third := k.Do(t, write, `{"text":"one"}`)
	if third.Problem.Code != "approval_pending" || third.Problem.Approval == first.Problem.Approval || len(k.Up.Requests()) != 1 {
		t.Errorf("the yes was used twice: %+v", third.Problem)
	}
	k.Verify(t)
}

// held sends a write that waits, and returns a person who watches, the approval's id
// and where the answer will come.
func held(t *testing.T, k *apptest.Kimbap, body string) (person *app.App, id string, got chan apptest.Answer) {
	t.Helper()
	person = k.Open(t, "")
	beat(t, person)
	got = make(chan apptest.Answer, 1)
	client := k.Client(t, "")
	go func() { got <- apptest.Send(t, client, write, body) }()
	return person, waiting(t, person), got
}

func TestRejectedRequestIsTold(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites})
	person, id, got := held(t, k, `{"text":"one"}`)
	if _, err := person.Reject(t.Context(), id, "not today"); err != nil {
		t.Fatal(err)
	}
	if a := <-got; a.Status != 403 || a.Problem.Code != "approval_rejected" || len(k.Up.Requests()) != 0 {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
	if a := k.Do(t, write, `{"text":"one"}`); a.Status != 403 || a.Problem.Code != "approval_rejected" {
		t.Errorf("sent again: %d %+v", a.Status, a.Problem)
	}
	if list, err := person.ListApprovals(t.Context(), false); err != nil || len(list) != 0 {
		t.Errorf("the person is asked again: %+v %v", list, err)
	}
}

// While somebody watches, the request is held and executed by its own process.
func TestHeldRequestIsExecutedByItsHolder(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites})
	person, id, got := held(t, k, `{"text":"held"}`)
	if len(k.Up.Requests()) != 0 {
		t.Error("left before the yes")
	}
	if _, err := person.Accept(t.Context(), id, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	if a := <-got; a.Status != 200 || len(k.Up.Requests()) != 1 {
		t.Errorf("%d %+v, the upstream saw %d", a.Status, a.Problem, len(k.Up.Requests()))
	}
	for _, r := range k.Await(t, nil, 2) {
		if r.Slot != "proxy" {
			t.Errorf("executed by the process of the decider: %s", r.Line)
		}
	}
}

// A person's yes does not outlive a rule that has since said no.
func TestPolicyIsAskedAgainWhenAYesIsUsed(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites})
	person, id, got := held(t, k, `{"text":"held"}`)
	digest := k.App.Policy().Current(runtime.DefaultTenant).Digest()
	k.Write(t, "policy.yaml", "version: 1\nrules: [{name: closed, match: {service: notes}, then: deny}]\n")
	apptest.Within(t, soon, "the new policy", func() bool { return k.App.Policy().Current(runtime.DefaultTenant).Digest() != digest })
	if _, err := person.Accept(t.Context(), id, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	if a := <-got; a.Status != 403 || a.Problem.Reason != "policy_changed" || len(k.Up.Requests()) != 0 {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
}

// installWorse installs the service with an action of its own, and a worse one, for the
// note whose text is "held".
func installWorse(t *testing.T, person *app.App) error {
	file := filepath.Join(t.TempDir(), "notes.yaml")
	text := apptest.Notes + "  wipe: {description: Remove all notes, method: POST, path: /notes, match: {body: {/text: held}}, risk: {level: critical}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	_, err := person.InstallService(t.Context(), file, nil)
	return err
}

// Who collects what was said yes to gets nothing that the services in force take for another
// action, though the rules by then let the old one through without asking.
func TestWhatIsCollectedIsTheSameActionStill(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]runtime.Code{"held": runtime.CodeForbidden, "other": ""} {
		k := apptest.New(t, apptest.Options{Policy: askWrites})
		a := k.Do(t, write, `{"text":"`+text+`"}`)
		person := k.Open(t, "person")
		if _, err := person.Accept(t.Context(), a.Problem.Approval, app.Yes{}); err != nil {
			t.Fatal(err)
		}
		k.Write(t, "policy.yaml", "version: 1\nrules: [{name: open, match: {action: notes.create-note}, then: allow}]\n")
		if err := installWorse(t, person); err != nil {
			t.Fatal(err)
		}
		_, _, err := k.Open(t, "other").WaitApproval(t.Context(), a.Problem.Approval, &app.Answer{}, nil)
		if code := runtime.CodeOf(err); code != want || (len(k.Up.Requests()) == 1) != (want == "") {
			t.Errorf("%s: %v, %d sent", text, err, len(k.Up.Requests()))
		}
	}
}

// Nor does it outlive the service: what was removed, or changed, sends nothing.
func TestAYesDoesNotOutliveItsService(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(k *apptest.Kimbap, person *app.App) error{
		"removed":                    func(_ *apptest.Kimbap, person *app.App) error { return person.RemoveService(t.Context(), "notes") },
		"with a worse action for it": func(_ *apptest.Kimbap, person *app.App) error { return installWorse(t, person) },
		"changed": func(_ *apptest.Kimbap, person *app.App) error {
			file := filepath.Join(t.TempDir(), "notes.yaml")
			text := strings.Replace(apptest.Notes, "{type: bearer,", "{type: header, header: {name: X-Other},", 1)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				return err
			}
			_, err := person.InstallService(t.Context(), file, nil)
			return err
		},
	} {
		k := apptest.New(t, apptest.Options{Policy: askWrites})
		person, id, got := held(t, k, `{"text":"held"}`)
		before := k.App.Services().Digest()
		if err := change(k, person); err != nil {
			t.Fatal(err)
		}
		apptest.Within(t, soon, "the change", func() bool { return k.App.Services().Digest() != before })
		if _, err := person.Accept(t.Context(), id, app.Yes{}); err != nil {
			t.Fatal(err)
		}
		if a := <-got; a.Status != 403 || a.Problem.Reason != "policy_changed" || len(k.Up.Requests()) != 0 {
			t.Errorf("%s: %d %+v, the upstream saw %d", name, a.Status, a.Problem, len(k.Up.Requests()))
		}
	}
}

// A client that goes while its request is held leaves nothing running.
func TestClientLeavesWhileHeld(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites})
	person := k.Open(t, "")
	beat(t, person)
	mark := k.Mark(t)
	w := k.Tunnel(t, apptest.Authority)
	const body = `{"text":"gone"}`
	if _, err := w.Write([]byte("POST /notes HTTP/1.1\r\nHost: " + apptest.Host + "\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n" + body)); err != nil {
		t.Fatal(err)
	}
	id := waiting(t, person)
	_ = w.Close()
	wantRecords(t, k, mark, "intent require_approval notes.create-note", "outcome require_approval notes.create-note error canceled")
	if _, err := person.Accept(t.Context(), id, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	if len(k.Up.Requests()) != 0 {
		t.Error("executed for nobody")
	}
	if a := k.Do(t, write, body); a.Status != 200 || len(k.Up.Requests()) != 1 {
		t.Errorf("the identical retry: %d %+v", a.Status, a.Problem)
	}
}

// How an approval stands is for its requester only.
func TestApprovalPageIsForTheSamePrincipal(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites, Serve: app.ServeOptions{RequireToken: true}})
	person := k.Open(t, "")
	token := func(agent string) string {
		secret, _, err := person.CreateToken(t.Context(), app.TokenGrant{Agent: agent, Scopes: []string{"*"}, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return secret.Reveal()
	}
	mine, theirs := token("mine"), token("theirs")
	asked := apptest.Send(t, k.Client(t, mine), write, `{"text":"x"}`)
	page := func(fields string) apptest.Answer {
		return k.Dial(t).Ask("GET /kimbap/approvals/" + asked.Problem.Approval + " HTTP/1.1\r\nHost: " + k.Proxy + "\r\n" + fields + "\r\n")
	}
	if want := "http://" + k.Proxy + "/kimbap/approvals/" + asked.Problem.Approval; asked.Problem.Result != want {
		t.Errorf("result_url %q, want %q", asked.Problem.Result, want)
	}
	for _, field := range []string{"Proxy-Authorization", "Authorization"} {
		if a := page(field + ": Bearer " + mine + "\r\n"); a.Status != 200 || !strings.Contains(a.Body, `"pending"`) {
			t.Errorf("own, by %s: %d %s", field, a.Status, a.Body)
		}
		if a := page(field + ": Bearer " + theirs + "\r\n"); a.Status != 400 || !strings.Contains(a.Body, `"not_found"`) || strings.Contains(a.Body, "notes.create-note") {
			t.Errorf("another agent, by %s: %d %s", field, a.Status, a.Body)
		}
	}
	if a := page(""); a.Status != 401 || a.Header.Get("WWW-Authenticate") == "" || strings.Contains(a.Body, "notes.create-note") {
		t.Errorf("nobody: %d %v %s", a.Status, a.Header, a.Body)
	}
}

// A yes for the rest of a run is for what that run's token asks, and a rule that
// has since said no wins over it.
func TestYesForTheRunEndsWithThePolicy(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites})
	person := k.Open(t, "")
	secret, _, err := person.CreateToken(t.Context(), app.TokenGrant{Agent: "claude", Run: "run_1", Scopes: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	client := k.Client(t, secret.Reveal())
	ask := func(text string) apptest.Answer { return apptest.Send(t, client, write, `{"text":"`+text+`"}`) }
	first := ask("one")
	if _, err := person.Accept(t.Context(), first.Problem.Approval, app.Yes{Run: true}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two", "three"} {
		if a := ask(text); a.Status != 200 {
			t.Errorf("%s: %d %+v", text, a.Status, a.Problem)
		}
	}
	if a := k.Do(t, write, `{"text":"two"}`); a.Problem.Code != "approval_pending" {
		t.Errorf("outside the run: %d %+v", a.Status, a.Problem)
	}
	digest := k.App.Policy().Current(runtime.DefaultTenant).Digest()
	k.Write(t, "policy.yaml", "version: 1\nrules: [{name: closed, match: {service: notes}, then: deny}]\n")
	apptest.Within(t, soon, "the new policy", func() bool { return k.App.Policy().Current(runtime.DefaultTenant).Digest() != digest })
	if a := ask("four"); a.Status != 403 || a.Problem.Code != "forbidden" {
		t.Errorf("denied since: %d %+v", a.Status, a.Problem)
	}
	if n := len(k.Up.Requests()); n != 3 {
		t.Errorf("%d requests left", n)
	}
}

// The rule that accept --always writes decides at once, and a file that somebody
// has changed meanwhile is left alone.
func TestAlwaysWritesAPolicyThatHolds(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: "# mine\n" + askWrites})
	person := k.Open(t, "")
	asked := k.Do(t, write, `{"text":"one"}`)
	rule, before, err := person.AlwaysRule(t.Context(), asked.Problem.Approval)
	if err != nil {
		t.Fatal(err)
	}
	if err := person.AddRule(t.Context(), rule, before); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(k.Dir, "policy.yaml"))
	if err != nil || !strings.HasPrefix(string(text), "# mine\n") || !strings.Contains(string(text), rule) {
		t.Errorf("%v\n%s", err, text)
	}
	apptest.Within(t, soon, "the new rule", func() bool { return k.Do(t, write, `{"text":"two"}`).Status == 200 })
	if err := person.AddRule(t.Context(), "{name: x, match: {action: [}", ""); err == nil {
		t.Error("half a rule was written")
	}
	if err := person.AddRule(t.Context(), "{name: x, match: {action: notes.x}, then: perhaps}", ""); err == nil {
		t.Error("a rule that is none was written")
	}
	if now, err := os.ReadFile(filepath.Join(k.Dir, "policy.yaml")); err != nil || string(now) != string(text) {
		t.Errorf("the file was changed: %v\n%s", err, now)
	}
	left, err := filepath.Glob(filepath.Join(k.Dir, "policy.yaml?*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// What a rule's approval: says is what it takes: certain people, several, a PIN.
func TestTheRulesTermsHold(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: "version: 1\nrules:\n" +
		"  - {name: two, match: {action: notes.create-note}, then: require_approval, approval: {by: [\"role:finance\"], count: 2, presence: pin, expires: 5m}}\n"})
	person := k.Open(t, "")
	pin := runtime.NewSecret
	for _, n := range []app.NewPin{
		{PIN: pin("the owner's")},
		{As: "alice", Roles: []string{"finance"}, PIN: pin("alice's"), Proved: pin("the owner's")},
		{As: "bob", Roles: []string{"finance"}, PIN: pin("bob's own"), Proved: pin("the owner's")},
	} {
		if err := person.SetPin(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	id := k.Do(t, write, `{"text":"one"}`).Problem.Approval
	for name, yes := range map[string]app.Yes{"no PIN": {}, "no role": {PIN: pin("the owner's")}, "another's PIN": {As: "alice", PIN: pin("bob's own")}} {
		if _, err := person.Accept(t.Context(), id, yes); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for i, yes := range []app.Yes{{As: "alice", PIN: pin("alice's")}, {As: "bob", PIN: pin("bob's own")}} {
		if a := k.Do(t, write, `{"text":"one"}`); a.Problem.Approval != id || len(k.Up.Requests()) != 0 {
			t.Errorf("with %d of two: %d %+v", i, a.Status, a.Problem)
		}
		if _, err := person.Accept(t.Context(), id, yes); err != nil {
			t.Fatal(err)
		}
	}
	if a := k.Do(t, write, `{"text":"one"}`); a.Status != 200 || len(k.Up.Requests()) != 1 {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
}

// What was allowed to a run is not listed as standing once the run has ended.
func TestStandingEndsWithItsRun(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askWrites})
	person := k.Open(t, "")
	token, info, err := person.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Run: "run_1", Scopes: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	id := apptest.Send(t, k.Client(t, token.Reveal()), write, `{"text":"x"}`).Problem.Approval
	if _, err := person.Accept(t.Context(), id, app.Yes{Run: true}); err != nil {
		t.Fatal(err)
	}
	if list, err := person.Standing(t.Context()); err != nil || len(list) != 1 {
		t.Fatalf("%+v %v", list, err)
	}
	if revoked, err := person.RevokeToken(t.Context(), info.ID); err != nil || !revoked {
		t.Fatal(revoked, err)
	}
	if list, err := person.Standing(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("the run has ended, and still %+v %v", list, err)
	}
}
