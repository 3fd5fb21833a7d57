package runtime

import (
	"fmt"
	"slices"
)

// A server may read the path of a request otherwise than it is written, and take it for
// another call: the same action of "prod" where policy was asked about "prod?x". Nobody knows
// which servers do, so a request passes only if policy lets each of its readings pass.

// Other is such a reading as the surface found it.
type Other struct {
	Action Ref
	Target string // raw path and query, as that server has them
	Args   Args
	Query  Args
	Astray []string
}

// Reading is one that was resolved: the action, and the request as it is read.
type Reading struct {
	Request *Request
	Action  *Action
	Args    Args
}

// Strictest is the verdict of a call whose request has other readings. What policy would ask a
// person for is denied there, unless the same is asked for the call itself: the question would
// show another call than the one that needs a yes.
func Strictest(v Verdict, others []Reading, judge func(Reading) Verdict) Verdict {
	for _, r := range others {
		if v.denies() {
			return v
		}
		o := judge(r)
		asks := o.Effect == EffectAsk && !(v.Effect == EffectAsk && v.Terms.like(o.Terms))
		switch {
		case o.NeedBody && !v.NeedBody:
			v = o
		case v.NeedBody && !o.denies(): // both are judged again
		case o.denies():
			v = o.about(r.Action.Ref, "")
		case asks:
			v = o.about(r.Action.Ref, ", which needs a person's approval")
		case o.Reported && !v.Reported:
			v.Reported, v.Would, v.WouldRule = true, o.Would, o.WouldRule
			if v.Effect == EffectAllow { // what asks stays what asks
				v.Rule = o.Rule
			}
			fallthrough
		default:
			v.Limits = withLimits(v.Limits, o.Limits)
		}
	}
	return v
}

// denies reports whether nothing, not even the body, lets the request pass.
func (v *Verdict) denies() bool {
	return !v.NeedBody && v.Effect != EffectAllow && v.Effect != EffectAsk
}

// about is the denial of a request for what it is to some servers.
func (v Verdict) about(action Ref, how string) Verdict {
	v.Effect, v.Terms, v.Limits = EffectDeny, ApprovalTerms{}, nil
	reason := fmt.Sprintf("some servers read its path otherwise than it is written, as %s%s", action, how)
	if v.Reason != "" {
		reason += ": " + v.Reason
	}
	v.Reason = reason
	return v
}

// withLimits adds the buckets that are not there yet.
func withLimits(limits, more []Limit) []Limit {
	for _, l := range more {
		if !slices.ContainsFunc(limits, func(have Limit) bool { return have.Bucket == l.Bucket && have.Rule == l.Rule }) {
			limits = append(slices.Clip(limits), l)
		}
	}
	return limits
}
