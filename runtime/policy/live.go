package policy

import (
	"sync/atomic"

	"github.com/kimbap-run/kimbap/runtime"
)

// Live is the policy in force, exchangeable while requests run. It is safe for
// concurrent use; the zero Live denies. A request keeps the policy it was
// judged by.
type Live struct{ current atomic.Pointer[Policy] }

var _ runtime.Decider = (*Live)(nil)

// NewLive starts with the policy.
func NewLive(p *Policy) *Live {
	l := &Live{}
	l.Swap(p)
	return l
}

// Swap puts the policy in force for the next request.
func (l *Live) Swap(p *Policy) { l.current.Store(p) }

// Current returns the policy in force, nil for none.
func (l *Live) Current() *Policy { return l.current.Load() }

// Decide implements [runtime.Decider].
func (l *Live) Decide(q runtime.Question) runtime.Verdict { return l.current.Load().Decide(q) }

// Explain is [Policy.Explain] of the policy in force.
func (l *Live) Explain(q runtime.Question) []Step { return l.current.Load().Explain(q) }
