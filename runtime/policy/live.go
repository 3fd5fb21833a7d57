package policy

import (
	"sync/atomic"

	"github.com/kimbap-run/kimbap/runtime"
)

// Set is the policy of each tenant.
type Set map[runtime.Tenant]*Policy

// Live is the policies in force, one per tenant, exchanged together while
// requests run. It is safe for concurrent use; the zero Live denies, and so does
// every one for a tenant that it does not know. A request keeps the policy it
// was judged by.
type Live struct{ current atomic.Pointer[Set] }

var _ runtime.Decider = (*Live)(nil)

// NewLive starts with the policies.
func NewLive(of Set) *Live {
	l := &Live{}
	l.Swap(of)
	return l
}

// Swap puts the policies in force for the next request. The set is not changed
// by its maker any more.
func (l *Live) Swap(of Set) { l.current.Store(&of) }

// Current returns the policy in force for a tenant, nil for none.
func (l *Live) Current(of runtime.Tenant) *Policy {
	if set := l.current.Load(); set != nil {
		return (*set)[of]
	}
	return nil
}

// Decide implements [runtime.Decider], by the policy of the principal's tenant.
func (l *Live) Decide(q runtime.Question) runtime.Verdict { return l.of(&q).Decide(q) }

// Explain is [Policy.Explain] of the policy in force for the principal's tenant.
func (l *Live) Explain(q runtime.Question) []Step { return l.of(&q).Explain(q) }

func (l *Live) of(q *runtime.Question) *Policy {
	if q.Principal == nil {
		return nil
	}
	return l.Current(q.Principal.Tenant)
}
