package policy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
)

// written is a rule before it is YAML.
type written struct{ name, match, then, when, limit string }

func (w written) String() string {
	text := fmt.Sprintf("  - name: %s\n    match: %s\n", w.name, w.match)
	for _, more := range []struct{ key, value string }{{"then", w.then}, {"when", w.when}, {"limit", w.limit}} {
		if more.value != "" || more.key == "then" && w.limit == "" {
			if more.key == "when" { // as a block, which needs no quotes
				more.value = ">-\n      " + more.value
			}
			text += "    " + more.key + ": " + more.value + "\n"
		}
	}
	return text
}

// file writes the rules down.
func file(mode string, rules []written) []byte {
	text := "version: 1\nmode: " + mode + "\n"
	if len(rules) > 0 {
		text += "rules:\n"
	}
	for _, r := range rules {
		text += r.String()
	}
	return []byte(text)
}

func parse(t *rapid.T, mode string, rules []written) *policy.Policy {
	p, err := policy.Parse("policy.yaml", file(mode, rules))
	if err != nil {
		t.Fatalf("%s\n%v", file(mode, rules), err)
	}
	return p
}

var (
	actions  = rapid.SampledFrom([]string{"a.list", "a.delete", "b.list", "b.delete", "net.pass"})
	agents   = rapid.SampledFrom([]string{"claude", "ci-1", "local"})
	known    = rapid.SampledFrom([]string{"low", "medium", "high", "critical", "unmatched"})
	effects  = rapid.SampledFrom([]string{"allow", "deny", "require_approval"})
	matchers = rapid.SampledFrom([]string{
		"{}", `{action: "a.*"}`, `{action: "*.delete"}`, "{action: [a.list, b.list]}", "{agent: claude}",
		`{agent: "ci-*", risk: [low, high]}`, "{service: b}", `{host: "*.example.com", method: GET}`, "{role: admin}",
	})
)

// broken are conditions that no question of these tests can answer; failing may
// do so or not.
var (
	broken = rapid.SampledFrom([]string{
		"args.nowhere == 1", "request.body.x == 1", "1 / 0 == 1", "int(principal.agent) > 0", "args.list[7] == 1",
		"false || args.nowhere", "true && args.nowhere == 1", `duration(principal.agent) > duration("1s")`, "!(args.nowhere == 1)",
		"[1, 2].exists(x, args.nowhere == x)", "args.nowhere == 1 ? true : false", "dyn(principal) == dyn(1) && principal.agent == principal.agent",
	})
	conditions = rapid.OneOf(rapid.Just(""), rapid.Just(""), broken, rapid.SampledFrom([]string{
		"true", "false", "true || args.nowhere == 1", "false && args.nowhere == 1", `principal.agent == "claude"`,
		`"admin" in principal.roles`, `action.risk in ["low", "high"]`, `args.?list.orValue([]) == []`, `request.host.endsWith(".example.com")`,
	}))
	rates = rapid.SampledFrom([]string{"", "", "{rate: 1/m}", "{rate: 60/m, burst: 5, per: tenant}"})
)

// drawFull draws rules with conditions and limits.
func drawFull(t *rapid.T) []written {
	rules := drawRules(t)
	for i := range rules {
		r := &rules[i]
		r.when = conditions.Draw(t, "when")
		if r.then != "deny" {
			r.limit = rates.Draw(t, "limit")
		}
		if r.limit != "" && rapid.Bool().Draw(t, "limit only") {
			r.then = ""
		}
	}
	return rules
}

func drawRules(t *rapid.T) []written {
	rules := make([]written, rapid.IntRange(0, 6).Draw(t, "rules"))
	for i := range rules {
		rules[i] = written{name: fmt.Sprintf("r%d", i), match: matchers.Draw(t, "match"), then: effects.Draw(t, "then")}
	}
	return rules
}

func drawQuestion(t *rapid.T, risk string) runtime.Question {
	ref := actions.Draw(t, "action")
	service, name, _ := strings.Cut(ref, ".")
	q := runtime.Question{
		Principal: &runtime.Principal{Agent: agents.Draw(t, "agent"), Tenant: runtime.DefaultTenant},
		Action:    &runtime.Action{Ref: runtime.Ref(ref), Service: service, Name: name, Risk: runtime.Risk(risk)},
		Request:   &runtime.Request{Target: runtime.Target{Authority: "api.example.com:443", Method: "GET"}},
	}
	if rapid.Bool().Draw(t, "admin") {
		q.Principal.Roles = []string{"admin"}
	}
	return q
}

var modes = rapid.SampledFrom([]string{"enforce", "report"})

// CB-071: a deny rule put anywhere never turns a denied request into an
// allowed one, nor one that asks.
func TestCB071MoreDenialsNeverAllow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode, rules := modes.Draw(t, "mode"), drawRules(t)
		more := slices.Insert(slices.Clone(rules), rapid.IntRange(0, len(rules)).Draw(t, "at"),
			written{name: "more", match: matchers.Draw(t, "match"), then: "deny"})
		q := drawQuestion(t, known.Draw(t, "risk"))
		before, after := parse(t, mode, rules).Decide(q), parse(t, mode, more).Decide(q)
		if before.Effect != runtime.EffectAllow && after.Effect == runtime.EffectAllow {
			t.Fatalf("%s → %s\n%s", before.Effect, after.Effect, file(mode, more))
		}
	})
}

// CB-072: an allow has a cause that the file or the built-in defaults name.
func TestCB072NothingAllowsByAccident(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode, rules := modes.Draw(t, "mode"), drawRules(t)
		p := parse(t, mode, rules)
		for range 100 { // ten thousand questions in all
			risk := rapid.OneOf(known, rapid.String()).Draw(t, "risk")
			switch v := p.Decide(drawQuestion(t, risk)); {
			case v.Effect != runtime.EffectAllow:
			case v.Reported && mode == "report":
			case slices.ContainsFunc(rules, func(r written) bool { return r.name == v.Rule && r.then == "allow" }):
			case v.Rule == "default:"+risk && (risk == "low" || risk == "medium" || risk == "unmatched"):
			default:
				t.Fatalf("allowed by %q\n%s", v.Rule, file(mode, rules))
			}
		}
	})
}

// CB-072: an effect that is not one of the three words is no policy.
func TestCB072UnknownEffects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		then := rapid.OneOf(
			rapid.SampledFrom([]string{"alow", "yes", "no", "on", "off", "true", "1", "null", "~", "''", "Allow", "ALLOW", "[allow]", "{allow: }", "!!str allow", "&a allow", "*a", ""}),
			rapid.StringMatching(`[a-z_]{1,12}`),
		).Filter(func(s string) bool { return s != "allow" && s != "deny" && s != "require_approval" }).Draw(t, "then")
		_, err := policy.Parse("policy.yaml", file("enforce", []written{{name: "r", match: "{}", then: then}}))
		var problems policy.Problems
		if !errors.As(err, &problems) {
			t.Fatalf("then: %s was taken: %v", then, err)
		}
		_, err = policy.Parse("policy.yaml", []byte("version: 1\ndefaults: {critical: "+then+"}\n"))
		if !errors.As(err, &problems) {
			t.Fatalf("critical: %s was taken: %v", then, err)
		}
	})
}

// CB-072: with parts of the question or the policy missing, the answer is no.
func TestCB072MissingPartsDeny(t *testing.T) {
	whole := question(t, "action=a.b")
	var none *policy.Policy
	for name, v := range map[string]runtime.Verdict{
		"zero policy":  (&policy.Policy{}).Decide(whole),
		"nil policy":   none.Decide(whole),
		"zero live":    (&policy.Live{}).Decide(whole),
		"no question":  policy.Default().Decide(runtime.Question{}),
		"no action":    policy.Default().Decide(runtime.Question{Principal: whole.Principal, Request: whole.Request}),
		"no principal": policy.Default().Decide(runtime.Question{Action: whole.Action, Request: whole.Request}),
		"no request":   policy.Default().Decide(runtime.Question{Action: whole.Action, Principal: whole.Principal}),
	} {
		if v.Effect != runtime.EffectDeny || v.Rule == "" {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// No rule set lets through a request on whose way stands a condition that
// nobody can judge, in no mode and whatever stands below it.
func TestNoConditionThatCannotBeJudgedLetsThrough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode, above, below := modes.Draw(t, "mode"), drawFull(t), drawFull(t)
		for i := range below {
			below[i].name = fmt.Sprintf("b%d", i)
		}
		q := drawQuestion(t, known.Draw(t, "risk"))
		first := parse(t, mode, above)
		rules := append(slices.Clone(above), written{
			name: "broken", match: "{}", when: broken.Draw(t, "broken"), then: effects.Draw(t, "then"),
		})
		v := parse(t, mode, append(rules, below...)).Decide(q)
		steps := first.Explain(q)
		if !strings.HasPrefix(steps[len(steps)-1].Rule, "default:") { // decided above it
			if want := first.Decide(q); verdict(v) != verdict(want) {
				t.Fatalf("rules below changed %s to %s", verdict(want), verdict(v))
			}
			return
		}
		if v.Effect != runtime.EffectDeny || !v.Failed || v.Reported || v.Rule != "broken" {
			t.Fatalf("%s\n%s", verdict(v), file(mode, append(rules, below...)))
		}
	})
}

// Rules that cannot both match may stand in any order.
func TestOrderOfDisjointRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rules []written
		for i, action := range []string{"a.list", "a.delete", "b.list", "b.delete"} {
			rules = append(rules, written{
				name: fmt.Sprintf("r%d", i), match: "{action: " + action + "}", then: effects.Draw(t, "then"),
				when: conditions.Draw(t, "when"), limit: "",
			})
		}
		shuffled := rapid.Permutation(rules).Draw(t, "order")
		mode, q := modes.Draw(t, "mode"), drawQuestion(t, known.Draw(t, "risk"))
		one, other := parse(t, mode, rules).Decide(q), parse(t, mode, shuffled).Decide(q)
		if verdict(one) != verdict(other) {
			t.Fatalf("%s, %s", verdict(one), verdict(other))
		}
	})
}

// What Explain shows is what Decide does.
func TestWhatExplainShowsIsWhatDecideDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode, rules := modes.Draw(t, "mode"), drawFull(t)
		p, q := parse(t, mode, rules), drawQuestion(t, known.Draw(t, "risk"))
		v, steps := p.Decide(q), p.Explain(q)
		last := steps[len(steps)-1]
		if v.Failed && !strings.Contains(last.Why, "cannot be judged") {
			t.Fatalf("failed, explained %+v", steps)
		}
		if !last.Matched || last.Effect != v.Effect || !v.Reported && last.Rule != v.Rule {
			t.Fatalf("decided %s, explained %+v", verdict(v), steps)
		}
		for _, s := range steps[:len(steps)-1] {
			if s.Effect != "" && s.Matched != s.Lifted || s.Why == "" {
				t.Fatalf("a step before the last: %+v", s)
			}
		}
		for _, l := range v.Limits {
			if !slices.ContainsFunc(steps, func(s policy.Step) bool { return s.Matched && s.Rule == l.Rule && strings.Contains(s.Why, "limit ") }) {
				t.Fatalf("limit of %s, explained %+v", l.Rule, steps)
			}
		}
		if v.Reported && !slices.ContainsFunc(steps, func(s policy.Step) bool { return s.Lifted && s.Rule == v.WouldRule }) {
			t.Fatalf("reported by %s, explained %+v", v.Rule, steps)
		}
	})
}
