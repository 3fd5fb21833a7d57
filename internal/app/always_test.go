package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// always accepts a request for good, as approve accept --always does.
func always(t *testing.T, person *app.App, id string) string {
	t.Helper()
	rule, before, err := person.AlwaysRule(t.Context(), id)
	if err == nil {
		err = person.AddRule(t.Context(), rule, before)
	}
	if err != nil {
		t.Fatalf("%s: %v", rule, err)
	}
	return rule
}

// A yes for good answers what the rule asked about, and nothing that another rule denies or asks
// more people about: neither one below it, nor, with mode: report, one that is only recorded.
func TestAlwaysLeavesOtherRulesInForce(t *testing.T) {
	t.Parallel()
	const small, large = `{"text":"a note"}`, `{"text":"a note that is long"}`
	for _, c := range []struct{ about, match, when string }{
		{"one action", "{action: notes.create-note}", "size(args.text) < 10"},
		{"several actions", `{action: ["notes.create-*", notes.delete-note], agent: "*"}`, "size(args.?text.orValue('')) < 10 // in letters"},
		{"everything", "{}", `args.?text.orValue("") == "a note"`},
	} {
		t.Run(c.about, func(t *testing.T) {
			t.Parallel()
			k := apptest.New(t, apptest.Options{Policy: "version: 1\nrules:\n" +
				"  - {name: small, match: " + c.match + ", when: " + fmt.Sprintf("%q", c.when) + ", then: require_approval, limit: {rate: 100/h}}\n" +
				"  - {name: never, match: {action: notes.create-note}, then: deny}\n"})
			person := k.Open(t, "")
			asked := k.Do(t, write, small)
			if asked.Problem.Code != "approval_pending" {
				t.Fatalf("%d %+v", asked.Status, asked.Problem)
			}
			rule := always(t, person, asked.Problem.Approval)
			if !strings.Contains(rule, "limit: {rate: 100/h, burst: 100, per: agent}") {
				t.Errorf("it is not the rule that asked: %s", rule)
			}
			apptest.Within(t, soon, "the rule", func() bool { return k.Do(t, write, small).Status == 200 })
			if a := k.Do(t, write, large); a.Status != 403 || a.Problem.Code != "forbidden" {
				t.Errorf("what a rule below denies: %d %+v\n%s", a.Status, a.Problem, rule)
			}
		})
	}
}

// With mode: report a rule that would deny is no rule that asked: what is allowed for good stands
// behind it, and once it is in force it denies.
func TestAlwaysStandsBehindWhatIsOnlyReported(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: "version: 1\nmode: report\nrules:\n  - {name: never, match: {action: notes.delete-note}, then: deny}\n"})
	const remove = "DELETE https://" + apptest.Host + "/notes/1"
	asked := k.Do(t, remove, "")
	if asked.Problem.Code != "approval_pending" || asked.Problem.Rule != "default:high" {
		t.Fatalf("%d %+v", asked.Status, asked.Problem)
	}
	always(t, k.Open(t, ""), asked.Problem.Approval)
	apptest.Within(t, soon, "the rule", func() bool { return k.Do(t, remove, "").Status == 200 })
	text, err := os.ReadFile(filepath.Join(k.Dir, "policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	k.Write(t, "policy.yaml", strings.Replace(string(text), "mode: report", "mode: enforce", 1))
	apptest.Within(t, soon, "the denial", func() bool { return k.Do(t, remove, "").Status == 403 })
}

// Of a rule that has gone, or has another name, nobody knows any more what it was about: without
// its match and condition a yes for good would be for more than was asked.
func TestAlwaysWantsTheRuleThatAsked(t *testing.T) {
	t.Parallel()
	const policy = "version: 1\nrules:\n  - {name: %s, match: {action: notes.create-note}, when: 'size(args.text) < 10', then: require_approval}\n"
	k := apptest.New(t, apptest.Options{Policy: fmt.Sprintf(policy, "asks")})
	asked := k.Do(t, write, `{"text":"a note"}`)
	if asked.Problem.Code != "approval_pending" {
		t.Fatalf("%d %+v", asked.Status, asked.Problem)
	}
	k.Write(t, "policy.yaml", fmt.Sprintf(policy, "renamed"))
	rule, _, err := k.Open(t, "").AlwaysRule(t.Context(), asked.Problem.Approval)
	if err == nil || !strings.Contains(err.Error(), "the rule asks that asked is no longer in the policy") {
		t.Errorf("%q, %v", rule, err)
	}
}
