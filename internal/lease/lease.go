// Package lease keeps the token of a run good while the run goes on: its life is short,
// and is prolonged again and again, so that the token of a kimbap that was killed ends
// by itself. It knows no token and revokes none: who made it gives a func that prolongs
// it.
//
// Start reading at [Lease.Look].
package lease

import (
	"context"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
)

// TTL is how long the token of a run is good without its kimbap, which prolongs it
// while the run goes on and revokes it at the end.
const TTL = time.Hour

// retry is how long after a failure, and at least after a success, it is tried to
// prolong a token again.
const retry = time.Minute

// Prolong makes a token good for longer, and says for how long it is good now. ok is
// false for one that was revoked.
type Prolong func(ctx context.Context) (left time.Duration, ok bool, err error)

// Lease keeps the token of a run good, as long as somebody looks.
type Lease struct {
	clock   func() time.Time
	from    time.Time     // of the last try
	pause   time.Duration // after it: then half of the token's life is over
	prolong Prolong       // nil: there is nothing to prolong any more
	failed  func(err error)
}

// New begins with a token that is good for so long. failed is told of each time that
// it was not prolonged.
func New(clock func() time.Time, left time.Duration, prolong Prolong, failed func(error)) *Lease {
	l := &Lease{clock: clock, prolong: prolong, failed: failed}
	l.next(clock(), left/2)
	return l
}

// next says when to try again, so long after a moment.
func (l *Lease) next(from time.Time, d time.Duration) { l.from, l.pause = from, max(d, retry) }

// Look prolongs the token when it is time. It is for one goroutine. A nil lease has
// nothing to prolong; of a token that was revoked nothing is prolonged any more.
func (l *Lease) Look(ctx context.Context) {
	if l == nil || l.prolong == nil {
		return
	}
	now := l.clock() // of before: a machine may fall asleep while the token is prolonged
	if system.Elapsed(l.from, now) < l.pause {
		return
	}
	left, ok, err := l.prolong(ctx)
	switch {
	case err != nil:
		l.failed(err)
		l.next(now, 0)
	case !ok:
		l.prolong = nil
	default:
		l.next(now, left/2)
	}
}

// every is how often Keep looks.
const every = time.Second

// Keep looks until ctx ends.
func (l *Lease) Keep(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.Look(ctx)
		case <-ctx.Done():
			return
		}
	}
}
