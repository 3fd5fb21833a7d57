package policy

import (
	"errors"
	"fmt"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy/condition"
)

// finding is what became of one rule for one question.
type finding struct {
	failed field // the test of the match that failed, or matched
	when   outcome
	why    error // of unjudged
	unseen bool  // it depends on the methods of requests in a tunnel, which nobody sees
}

// outcome is what became of a condition.
type outcome int

const (
	isTrue outcome = iota // also of a rule without one
	isFalse
	unjudged // it cannot be evaluated
	unread   // it looks at a body that was not read
)

// stops reports whether the rule holds requests up.
func (r *rule) stops() bool {
	return r.verdict.Effect != runtime.EffectAllow && r.verdict.Effect != ""
}

// look tries the match, then the condition. Of a tunnel nobody sees the methods: a rule about
// them that stops requests is taken to hold there, one that lets them pass is not.
func (r *rule) look(f *facts, q *runtime.Question) finding {
	found := finding{failed: r.match.fails(f, matched)}
	if found.failed == fieldMethod && f.opaque && r.stops() {
		found.failed, found.unseen = r.match.fails(f, fieldMethod), true
	}
	if found.failed != matched || r.when == nil {
		return found
	}
	if r.when.NeedsBody(q) {
		found.when = unread
		return found
	}
	held := *q // so that a question is on the heap only where a condition looks at it
	switch holds, err := r.when.Holds(&held); {
	case errors.Is(err, condition.ErrOpaque):
		found.unseen = true
		if !r.stops() {
			found.when = isFalse
		}
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
	if f.unseen && f.when <= isFalse {
		return "depends on methods in the tunnel, which nobody sees"
	}
	return [...]string{"is true", "is false", "cannot be judged", "looks at the body, which was not read"}[f.when]
}

// What is told of a denial because nobody sees what goes through a tunnel.
const (
	opaqueReason = "kimbap does not see which methods are used in a tunnel to a host without a service"
	opaqueFix    = "the owner can set proxy.intercept: all in config.yaml, or let such tunnels pass by a rule before this one, " +
		"with match: {action: net.pass, method: CONNECT} and then: allow"
)

// answer is the verdict of a rule that holds: its own, and a denial where nobody knows whether it
// is about what goes through a tunnel.
func (r *rule) answer(found finding) runtime.Verdict {
	v := r.verdict
	if !found.unseen {
		return v
	}
	v.Effect, v.Terms, v.Fix = runtime.EffectDeny, runtime.ApprovalTerms{}, opaqueFix
	if v.Reason != "" {
		v.Reason += "; "
	}
	v.Reason += opaqueReason
	return v
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
