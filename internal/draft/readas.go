package draft

import (
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
)

// ReadAs is what a request is to servers that read its path otherwise than it is written, and
// what policy says of that.
type ReadAs struct {
	Action runtime.Ref   `json:"action"`
	Args   runtime.Args  `json:"args,omitempty"`
	Steps  []policy.Step `json:"steps,omitempty"`
}

// Rules are a policy, in force or not.
type Rules interface {
	Decide(q runtime.Question) runtime.Verdict
	Explain(q runtime.Question) []policy.Step
}

// Decide is the verdict on a question and on the other readings of its request, and the
// reading that decided; nil where what is written did.
func Decide(rules Rules, q runtime.Question, others []runtime.Reading) (runtime.Verdict, *ReadAs) {
	first, last := rules.Decide(q), runtime.Reading{}
	verdict := runtime.Strictest(first, others, func(r runtime.Reading) runtime.Verdict {
		last = r
		return rules.Decide(q.As(r))
	})
	if last.Action == nil || verdict.Effect != runtime.EffectDeny || first.Effect == runtime.EffectDeny {
		return verdict, nil
	}
	return verdict, &ReadAs{last.Action.Ref, last.Args, rules.Explain(q.As(last))} // after a denial none is judged
}
