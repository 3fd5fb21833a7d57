package sandbox

import (
	"context"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// enter waits for one of some turns; too many that wait are refused.
func (r *Runner) enter(ctx context.Context, t *turns, who *runtime.Principal) (leave func(), err error) {
	ok, err := t.enter(ctx, who.Owner())
	switch {
	case err != nil:
		if ok {
			t.leave()
		}
		return nil, gone(ctx)
	case !ok:
		return nil, &runtime.Error{
			Code: runtime.CodeRateLimited, Reason: runtime.ReasonTooManyRequests, RetryAfter: time.Second,
			Msg: "too many scripts run or wait for their turn already", Hint: "try again in a while",
		}
	}
	return sync.OnceFunc(t.leave), nil
}

// waits are callers that wait for people, and what their calls were given and answered.
type waits struct{ callers, bytes int }

// add is the bookkeeping of mayWait. The lock is held.
func (r *Runner) add(owner string, callers, bytes int) {
	w := waits{r.waits[owner].callers + callers, r.waits[owner].bytes + bytes}
	r.waiting += bytes
	if r.waits[owner] = w; w.callers == 0 {
		delete(r.waits, owner)
	}
}

const (
	manyWait = 4  // so many scripts with as much of calls as one may have wait at most
	smallOne = 64 // and of one with less than this part of it only the callers count
)

// mayWait takes a place for a caller that waits for a person, with so many bytes of calls;
// false when its principal has as many as of the queue, or as many bytes as one script may
// have. Then the execution is paused at once. Small scripts wait however much others have.
func (r *Runner) mayWait(who *runtime.Principal, bytes int) (done func(), ok bool) {
	owner, most := who.Owner(), r.o.Limits.Traffic
	if bytes < most/smallOne {
		bytes = 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch w := r.waits[owner]; {
	case w.callers >= r.turns.share(), w.callers > 0 && w.bytes+bytes > most, len(r.waits) > 0 && r.waiting+bytes > manyWait*most:
		return nil, false
	}
	r.add(owner, 1, bytes)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.add(owner, -1, -bytes)
	}, true
}
