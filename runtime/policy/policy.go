package policy

import (
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy/condition"
)

// Policy is a compiled file. It is immutable and safe for concurrent use; nil
// and the zero Policy deny everything.
type Policy struct {
	rules    []rule
	defaults map[runtime.Risk]runtime.Verdict
	report   bool
	digest   string
}

// rule is one rule with its answer made in advance. Without an effect it only
// adds its limit.
type rule struct {
	match   match
	when    *condition.Condition // nil: the match is all
	written string               // when, as a person wrote it
	limit   *limit               // nil: none
	verdict runtime.Verdict
	file    string
	line    int
	spots   []spot // of the patterns of match, one after the other
}

var _ runtime.Decider = (*Policy)(nil)

// Default is the policy of a home with no file: low and medium risk and hosts
// with no service are allowed, high asks a person, critical is denied.
func Default() *Policy { return compile(newDocument()) }

// Decide implements [runtime.Decider]. The verdict names the rule of the file
// that decided, or "default:RISK", and holds the limits of all rules that were
// passed on the way. A rule whose condition cannot be judged denies, in every
// mode; one whose condition looks at a body that was not read ends the search
// with NeedBody.
//
// With mode report, rules that deny or ask are lifted: the search goes on as if
// they were not there. When that ends in a milder effect than the first lifted
// rule's, the verdict is Reported, and Would and WouldRule are of that rule. One that
// allows names it as its own rule, too; one that asks names what asks.
func (p *Policy) Decide(q runtime.Question) runtime.Verdict {
	return p.decide(&q, nil)
}

// Digest is the hex SHA-256 of the policy's meaning: comments, spacing and the
// order of patterns in a list do not change it. It is empty for the zero Policy.
func (p *Policy) Digest() string {
	if p == nil {
		return ""
	}
	return p.digest
}

// decide is the one walk behind Decide and Explain, so that they cannot
// disagree. It notes its steps when asked to.
func (p *Policy) decide(q *runtime.Question, steps *[]Step) runtime.Verdict {
	if p == nil || q.Principal == nil || q.Action == nil || q.Request == nil {
		return incomplete(steps)
	}
	f := factsOf(q)
	var lifted runtime.Verdict
	var limits []runtime.Limit
	for i := range p.rules {
		r := &p.rules[i]
		found := r.look(&f, q)
		lift := p.report && found.holds() && r.stops()
		if steps != nil {
			*steps = append(*steps, r.step(&f, found, lift))
		}
		if found.ends() {
			return r.stopped(found)
		}
		if !found.holds() {
			continue
		}
		if r.limit != nil && !found.unseen {
			limits = append(limits, r.limit.of(r.verdict.Rule, q))
		}
		switch {
		case r.verdict.Effect == "":
		case lift && lifted.Effect == "":
			lifted = r.answer(found)
		case lift:
		default:
			return soften(r.answer(found), lifted, limits)
		}
	}
	verdict, ok := p.defaults[q.Action.Risk]
	if !ok { // a risk nobody has heard of, and the zero Policy
		verdict = runtime.Verdict{Effect: runtime.EffectDeny, Rule: runtime.RuleDefault + string(q.Action.Risk), Digest: p.digest}
	}
	if steps != nil {
		*steps = append(*steps, defaultStep(verdict))
	}
	return soften(verdict, lifted, limits)
}

// soften adds the limits, and records that a lifted rule would have been
// stricter than the verdict. A question to a person is of the rule that asks: what
// they answer is to change that one, and never one that denies.
func soften(verdict, lifted runtime.Verdict, limits []runtime.Limit) runtime.Verdict {
	verdict.Limits = limits
	if lifted.Effect == "" || strictness(lifted.Effect) <= strictness(verdict.Effect) {
		return verdict
	}
	if verdict.Effect == runtime.EffectAllow {
		verdict.Rule, verdict.Reason = lifted.Rule, lifted.Reason
	}
	verdict.Reported, verdict.Would, verdict.WouldRule = true, lifted.Effect, lifted.Rule
	return verdict
}

// strictness orders the effects; what is not one counts as a denial.
func strictness(e runtime.Effect) int {
	switch e {
	case runtime.EffectAllow:
		return 0
	case runtime.EffectAsk:
		return 1
	default:
		return 2
	}
}

// incomplete is the answer to a question with a part missing, and of no policy.
func incomplete(steps *[]Step) runtime.Verdict {
	v := runtime.Verdict{Effect: runtime.EffectDeny, Rule: runtime.RuleDefault + "incomplete"}
	if steps != nil {
		*steps = append(*steps, defaultStep(v))
	}
	return v
}
