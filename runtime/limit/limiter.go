package limit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Store keeps one moment per bucket.
type Store interface {
	// ChangeLimit gives change the moment at which the bucket is full, zero for
	// a bucket that nobody has used, and stores what it returns. No other change
	// of the bucket, by any process, comes between the two.
	ChangeLimit(ctx context.Context, bucket string, change func(full time.Time) time.Time) error
}

// Options are what a Limiter needs; all of it is required.
type Options struct {
	Store Store
}

// Limiter takes requests from buckets. It is safe for concurrent use.
type Limiter struct {
	store Store

	mu     sync.Mutex
	leases map[string]*lease
	sweep  int // how many leases there are when idle ones are forgotten next
}

var _ runtime.Limiter = (*Limiter)(nil)

// New refuses options with something missing.
func New(o Options) (*Limiter, error) {
	if o.Store == nil {
		return nil, errors.New("limit: Options.Store is missing")
	}
	return &Limiter{store: o.Store, leases: map[string]*lease{}}, nil
}

// Take implements [runtime.Limiter]: one request from every bucket, or from
// none. The error is CodeRateLimited with RetryAfter, or one of the store.
func (t *Limiter) Take(ctx context.Context, limits []runtime.Limit, now time.Time) error {
	for i := range limits {
		err := t.lease(limits[i].Bucket, now).take(ctx, t.store, &limits[i], now)
		if err == nil {
			continue
		}
		for _, taken := range limits[:i] {
			t.lease(taken.Bucket, now).putBack()
		}
		return err
	}
	return nil
}

// mostLeases is how many buckets a process remembers before it forgets those
// that have had no lease for a while. Forgetting is safe: it costs a write.
const mostLeases = 4096

// lease finds what this process holds of a bucket.
func (t *Limiter) lease(bucket string, now time.Time) *lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.leases[bucket]
	if l != nil {
		return l
	}
	if len(t.leases) >= max(t.sweep, mostLeases) {
		for name, old := range t.leases {
			if old.idle(now) {
				delete(t.leases, name)
			}
		}
		t.sweep = 2 * len(t.leases)
	}
	l = &lease{}
	t.leases[bucket] = l
	return l
}

// refused is the error of an empty bucket.
func refused(l *runtime.Limit, wait time.Duration) error {
	wait = max(wait, time.Millisecond)
	return &runtime.Error{
		Code: runtime.CodeRateLimited, Reason: runtime.ReasonOverLimit, RetryAfter: wait, Rule: l.Rule,
		Msg:  fmt.Sprintf("the limit of rule %s is reached", l.Rule),
		Hint: fmt.Sprintf("wait %s, then try again", wait.Round(time.Millisecond)),
	}
}
