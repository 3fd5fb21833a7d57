package app

import (
	"context"
	"time"
)

// runTTL is how long the token of a run is good without its kimbap, which prolongs
// it while the run goes on and revokes it at the end: that of a kimbap that was
// killed ends by itself.
const runTTL = time.Hour

// leaseRetry is how long after a failure, and at least after a success, it is tried
// to prolong a token again.
const leaseRetry = time.Minute

// lease keeps the token of a run good, as long as somebody looks.
type lease struct {
	clock   func() time.Time
	due     time.Time // by that time half of its life is over
	prolong func(ctx context.Context) (left time.Duration, ok bool, err error)
	failed  func(err error) // told of each time that it did not work
}

// newLease begins with a token that is good for so long.
func newLease(clock func() time.Time, left time.Duration, prolong func(context.Context) (time.Duration, bool, error), failed func(error)) *lease {
	l := &lease{clock: clock, prolong: prolong, failed: failed}
	l.next(left / 2)
	return l
}

// leaseOf is that of a run of this home, whose token was just made.
func (a *App) leaseOf(token string) *lease {
	prolong := func(ctx context.Context) (time.Duration, bool, error) { return a.ProlongToken(ctx, token, runTTL) }
	failed := func(err error) { a.o.Log.Warn().Err(err).Msg("the token of this run was not prolonged") }
	return newLease(a.o.Clock, runTTL, prolong, failed)
}

// next is set by the clock on the wall: a machine that sleeps does not stop that one.
func (l *lease) next(d time.Duration) { l.due = l.clock().Round(0).Add(max(d, leaseRetry)) }

// look prolongs the token when it is time. It is for one goroutine. A nil lease has
// nothing to prolong; of a token that was revoked nothing is prolonged any more.
func (l *lease) look(ctx context.Context) {
	if l == nil || l.prolong == nil || l.clock().Before(l.due) {
		return
	}
	left, ok, err := l.prolong(ctx)
	switch {
	case err != nil:
		l.failed(err)
		l.next(0)
	case !ok:
		l.prolong = nil
	default:
		l.next(left / 2)
	}
}

// leaseEvery is how often it is looked whether the token of a run at a server is to
// be prolonged.
const leaseEvery = time.Second

// keep looks until ctx ends.
func (l *lease) keep(ctx context.Context) {
	tick := time.NewTicker(leaseEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.look(ctx)
		case <-ctx.Done():
			return
		}
	}
}
