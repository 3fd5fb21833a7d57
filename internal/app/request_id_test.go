package app_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// An error of a call names its request, as the trail does: through the daemon as without,
// where a redirect is not followed, and of what is fetched once a person has decided.
func TestAnErrorOfACallNamesItsRequest(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Upstream: refusing()})
	plain := slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "KIMBAP_") })
	recorded := func(id string, status int) {
		apptest.Eventually(t, "the record of "+id, func() bool {
			return slices.ContainsFunc(k.Records(t), func(r apptest.Record) bool { return r.ID == id && r.Status == status })
		})
	}
	asked := func(how string, status int) string {
		text := callJSON(t, plain, "--home", k.Dir, "notes.read-as", "--how", how)
		_, after, named := strings.Cut(text, `"request_id":"`)
		id, _, _ := strings.Cut(after, `"`)
		if !named {
			t.Fatalf("%s: no request in %s", how, text)
		}
		recorded(id, status)
		return strings.ReplaceAll(text, id, "ID")
	}
	answers, direct := map[string]int{"gone": 404, "away": 302, "busy": 429}, map[string]string{}
	for how, status := range answers {
		direct[how] = asked(how, status)
	}
	daemon, _ := daemonOf(t, k)
	for how, status := range answers {
		if got := asked(how, status); got != direct[how] {
			t.Errorf("%s: here %s, through the daemon %s", how, direct[how], got)
		}
	}

	got := daemon.ask(t, "", "POST", "/v1/actions/notes/delete-note:execute", `{"input":{"id":9}}`).problem(t)
	if _, err := k.Open(t, "").Accept(t.Context(), got.ApprovalID, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	got = daemon.ask(t, "", "POST", "/v1/approvals/"+got.ApprovalID+":result", `{}`).problem(t)
	if got.Code != runtime.CodeUpstream || got.RequestID == "" {
		t.Fatalf("the result: %+v", got)
	}
	recorded(got.RequestID, 409)
}

// What a person has accepted is in the trail under the id that its result is answered with.
func TestACollectedResultNamesItsRequest(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c := newAPI(t, k)
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	held := c.ask(t, agent, "POST", "/v1/actions/notes/delete-note:execute", `{"input":{"id":3}}`).problem(t)
	if _, err := k.Open(t, "").Accept(t.Context(), held.ApprovalID, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	got := c.ask(t, agent, "POST", "/v1/approvals/"+held.ApprovalID+":result", "")
	id := got.Header.Get("X-Request-Id")
	if got.Status != 200 || id == "" {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	apptest.Eventually(t, "the outcome of "+id, func() bool {
		return slices.ContainsFunc(k.Records(t), func(r apptest.Record) bool { return r.ID == id && r.Status == 200 })
	})
}

// A token that cannot be prolonged has its end in the trail, and what is no id stands nowhere.
func TestWhatIsNotProlongedSaysSo(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	a := k.Open(t, "")
	value, _ := tokenOf(t, k, app.TokenGrant{})
	for _, id := range []string{"tok_none", value} {
		if _, found, err := a.ProlongToken(t.Context(), id, time.Hour); found || err != nil {
			t.Errorf("%s: %v %v", id, found, err)
		}
	}
	ends := map[string]int{}
	for _, r := range k.Records(t) {
		if strings.Contains(r.Line, `"token.prolong"`) {
			ends["all"]++
			if strings.Contains(r.Line, "tok_none") && strings.Contains(r.Line, `"result":"invalid_input"`) {
				ends["none"]++
			}
		}
		if strings.Contains(r.Line, value) {
			t.Error(r.Line)
		}
	}
	if ends["all"] != 2 || ends["none"] != 1 {
		t.Errorf("%v", ends)
	}
}

// What takes away something that is not there says so in the trail: nothing was changed. A
// token that is revoked again is none that is valid either, and of it doctor still knows.
func TestWhatTakesNothingAwaySaysSo(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	a := k.Open(t, "")
	_, made, err := a.CreateToken(t.Context(), app.TokenGrant{Agent: "ci", Scopes: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id    string
		found bool
	}{{made.ID, true}, {made.ID, false}, {"tok_none", false}} {
		if found, err := a.RevokeToken(t.Context(), c.id); found != c.found || err != nil {
			t.Errorf("%s: %v %v", c.id, found, err)
		}
	}
	if found, err := a.RemoveSecret(t.Context(), "none"); found || err != nil {
		t.Error(found, err)
	}
	var said []string
	for _, r := range k.Records(t) {
		if r.Event == "token.revoke" || r.Event == "vault.remove" {
			said = append(said, strings.TrimSpace(strings.ReplaceAll(r.Fields["token"], made.ID, "tok_made")+r.Fields["name"]+" "+r.Fields["result"]))
		}
	}
	if got := strings.Join(said, ", "); got != "tok_made, tok_made, tok_made invalid_input, tok_none, tok_none invalid_input, none, none invalid_input" {
		t.Error(got)
	}
}
