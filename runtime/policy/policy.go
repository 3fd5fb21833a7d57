package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/kimbap-run/kimbap/runtime"
)

// Policy is a compiled file. It is immutable and safe for concurrent use; nil
// and the zero Policy deny everything.
type Policy struct {
	rules    []rule
	defaults map[runtime.Risk]runtime.Verdict
	report   bool
	digest   string
}

// rule is one rule with its answer made in advance.
type rule struct {
	match   match
	verdict runtime.Verdict
	line    int
}

var _ runtime.Decider = (*Policy)(nil)

// Default is the policy of a home with no file: low and medium risk and hosts
// with no service are allowed, high asks a person, critical is denied.
func Default() *Policy { return compile(newDocument()) }

// Load reads and parses the file. A file that is not there is [Default]; one
// that cannot be read or parsed is an error, [Problems] in the latter case.
func Load(path string) (*Policy, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Default(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	return Parse(path, data)
}

// Decide implements [runtime.Decider]. The verdict names the rule of the file
// that decided, or "default:RISK".
//
// With mode report, rules that deny or ask are lifted: the search goes on as if
// they were not there. When that ends in a milder effect than the first lifted
// rule's, the verdict is Reported, names that rule, and Would is its effect.
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
	var lifted *rule
	for i := range p.rules {
		r := &p.rules[i]
		failed := r.match.fails(&f)
		lift := p.report && failed == matched && r.verdict.Effect != runtime.EffectAllow
		if steps != nil {
			*steps = append(*steps, r.step(&f, failed, lift))
		}
		switch {
		case failed != matched:
		case lift && lifted == nil:
			lifted = r
		case lift:
		default:
			return soften(r.verdict, lifted)
		}
	}
	verdict, ok := p.defaults[q.Action.Risk]
	if !ok { // a risk nobody has heard of, and the zero Policy
		verdict = runtime.Verdict{Effect: runtime.EffectDeny, Rule: "default:" + string(q.Action.Risk), Digest: p.digest}
	}
	if steps != nil {
		*steps = append(*steps, defaultStep(verdict))
	}
	return soften(verdict, lifted)
}

// soften records that a lifted rule would have been stricter than the verdict.
func soften(verdict runtime.Verdict, lifted *rule) runtime.Verdict {
	if lifted == nil || strictness(lifted.verdict.Effect) <= strictness(verdict.Effect) {
		return verdict
	}
	verdict.Rule, verdict.Reason = lifted.verdict.Rule, lifted.verdict.Reason
	verdict.Reported, verdict.Would = true, lifted.verdict.Effect
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
	v := runtime.Verdict{Effect: runtime.EffectDeny, Rule: "default:incomplete"}
	if steps != nil {
		*steps = append(*steps, defaultStep(v))
	}
	return v
}
