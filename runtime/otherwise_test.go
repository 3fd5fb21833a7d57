package runtime

import (
	"reflect"
	"testing"
)

// A call with other readings has the strictest of their verdicts, never a milder one.
func TestTheStrictestReadingDecides(t *testing.T) {
	t.Parallel()
	allow := Verdict{Effect: EffectAllow, Rule: "allow", Limits: []Limit{{Rule: "allow", Bucket: "a"}}}
	deny := Verdict{Effect: EffectDeny, Rule: "deny", Reason: "no"}
	ask := Verdict{Effect: EffectAsk, Rule: "ask"}
	two := Verdict{Effect: EffectAsk, Rule: "two", Terms: ApprovalTerms{Count: 2}}
	pin := Verdict{Effect: EffectAsk, Rule: "pin", Terms: ApprovalTerms{Presence: "pin"}}
	some := Verdict{Effect: EffectAsk, Rule: "some", Terms: ApprovalTerms{By: []string{"role:finance"}}}
	body := Verdict{NeedBody: true, Rule: "body"}
	report := Verdict{Effect: EffectAllow, Reported: true, Would: EffectDeny, Rule: "report"}
	limited := Verdict{Effect: EffectAllow, Rule: "limited", Limits: []Limit{{Rule: "allow", Bucket: "a"}, {Rule: "limited", Bucket: "b"}}}
	for _, c := range []struct {
		name          string
		first         Verdict
		others        []Verdict
		effect, would Effect
		rule, reason  string
		body          bool
		limits        int
	}{
		{"alone", allow, nil, EffectAllow, "", "allow", "", false, 1},
		{"both pass", allow, []Verdict{allow}, EffectAllow, "", "allow", "", false, 1},
		{"one is denied", allow, []Verdict{allow, deny}, EffectDeny, "", "deny", "some servers read its path otherwise than it is written, as git.get: no", false, 0},
		{"asked and denied", ask, []Verdict{deny}, EffectDeny, "", "deny", "some servers read its path otherwise than it is written, as git.get: no", false, 0},
		{"the first is denied", deny, []Verdict{allow}, EffectDeny, "", "deny", "no", false, 0},
		{"nothing is a denial", allow, []Verdict{{}}, EffectDeny, "", "", "some servers read its path otherwise than it is written, as git.get", false, 0},
		{"an unknown effect is one", allow, []Verdict{{Effect: "maybe"}}, EffectDeny, "", "", "some servers read its path otherwise than it is written, as git.get", false, 0},
		{"one asks", allow, []Verdict{ask}, EffectDeny, "", "ask", "some servers read its path otherwise than it is written, as git.get, which needs a person's approval", false, 0},
		{"both ask", ask, []Verdict{ask}, EffectAsk, "", "ask", "", false, 0},
		{"one asks two people", ask, []Verdict{two}, EffectDeny, "", "two", "some servers read its path otherwise than it is written, as git.get, which needs a person's approval", false, 0},
		{"one asks for a PIN", ask, []Verdict{pin}, EffectDeny, "", "pin", "some servers read its path otherwise than it is written, as git.get, which needs a person's approval", false, 0},
		{"both ask for a PIN", pin, []Verdict{pin}, EffectAsk, "", "pin", "", false, 0},
		{"one asks certain people", ask, []Verdict{some}, EffectDeny, "", "some", "some servers read its path otherwise than it is written, as git.get, which needs a person's approval", false, 0},
		{"asked, and one passes", ask, []Verdict{allow}, EffectAsk, "", "ask", "", false, 1},
		{"the body decides one", allow, []Verdict{body}, "", "", "body", "", true, 0},
		{"the body decides the first", body, []Verdict{allow, ask}, "", "", "body", "", true, 0},
		{"the body decides one, another is denied", allow, []Verdict{body, deny}, EffectDeny, "", "deny", "some servers read its path otherwise than it is written, as git.get: no", false, 0},
		{"only reported", allow, []Verdict{report}, EffectAllow, EffectDeny, "report", "", false, 1},
		{"the limits of both", allow, []Verdict{limited}, EffectAllow, "", "allow", "", false, 2},
		{"two limits of one rule", allow, []Verdict{{Effect: EffectAllow, Limits: []Limit{{Rule: "allow", Bucket: "b"}}}}, EffectAllow, "", "allow", "", false, 2},
		{"two rules on one bucket", allow, []Verdict{{Effect: EffectAllow, Limits: []Limit{{Rule: "other", Bucket: "a"}}}}, EffectAllow, "", "allow", "", false, 2},
	} {
		var readings []Reading
		for i := range c.others {
			readings = append(readings, Reading{Action: &Action{Ref: "git.get"}, Args: Args{"n": i}})
		}
		got := Strictest(c.first, readings, func(r Reading) Verdict { return c.others[r.Args["n"].(int)] })
		if got.Effect != c.effect || got.Would != c.would || got.Rule != c.rule || got.Reason != c.reason || got.NeedBody != c.body || len(got.Limits) != c.limits {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	if want := (Verdict{Effect: EffectAllow, Rule: "allow", Limits: []Limit{{Rule: "allow", Bucket: "a"}}}); !reflect.DeepEqual(allow, want) {
		t.Errorf("a verdict of policy was changed: %+v", allow)
	}
}

// A policy that names the same people in another order demands the same.
func TestTheOrderOfApproversIsNone(t *testing.T) {
	terms := ApprovalTerms{By: []string{"role:finance", "group:leads"}}
	if !terms.like(ApprovalTerms{By: []string{"group:leads", "role:finance"}}) || terms.like(ApprovalTerms{By: []string{"group:leads"}}) || terms.By[0] != "role:finance" {
		t.Error(terms)
	}
}
