package policy

import (
	"errors"
	"fmt"

	"github.com/kimbap-run/kimbap/runtime"
)

// finding is what became of one rule for one question.
type finding struct {
	failed field // the test of the match that failed, or matched
	when   outcome
	why    error // of unjudged
}

// outcome is what became of a condition.
type outcome int

const (
	isTrue outcome = iota // also of a rule without one
	isFalse
	unjudged // it cannot be evaluated
	unread   // it looks at a body that was not read
)

// look tries the match, then the condition.
func (r *rule) look(f *facts, q *runtime.Question) finding {
	found := finding{failed: r.match.fails(f)}
	if found.failed != matched || r.when == nil {
		return found
	}
	if r.when.NeedsBody(q) {
		found.when = unread
		return found
	}
	held := *q // so that a question is on the heap only where a condition looks at it
	switch holds, err := r.when.Holds(&held); {
	case err != nil:
		found.when, found.why = unjudged, err
	case !holds:
		found.when = isFalse
	}
	return found
}

// holds reports whether the rule applies.
func (f *finding) holds() bool { return f.failed == matched && f.when == isTrue }

// ends reports whether the search cannot go on: nobody knows if the rule applies.
func (f *finding) ends() bool { return f.failed == matched && f.when >= unjudged }

// said is the outcome of a condition in a word.
func (f *finding) said() string {
	return [...]string{"is true", "is false", "cannot be judged", "looks at the body, which was not read"}[f.when]
}

// stopped is the verdict of a search that cannot go on. It never lets through.
func (r *rule) stopped(found finding) runtime.Verdict {
	v := runtime.Verdict{Rule: r.verdict.Rule, Digest: r.verdict.Digest}
	if found.when == unread {
		v.NeedBody = true
		return v
	}
	if found.why == nil {
		found.why = errors.New("nobody knows why")
	}
	v.Effect, v.Failed = runtime.EffectDeny, true
	v.Reason = fmt.Sprintf("its condition cannot be judged: %v", found.why)
	return v
}
