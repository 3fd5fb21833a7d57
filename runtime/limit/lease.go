package limit

import (
	"context"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

const (
	leaseTime = time.Second // after which what is left of a lease is lost
	mostLease = 100         // requests
)

// lease is what a process holds of one bucket.
type lease struct {
	mu     sync.Mutex // never held while the store is asked
	left   int        // requests
	size   int        // of the lease when it was made
	from   time.Time  // when that was
	empty  time.Time  // the bucket has nothing before this, by the wall: it fills while the machine sleeps
	asking *attempt   // nil when nobody asks the store
}

// attempt is one caller's question to the store, which others wait for.
type attempt struct {
	over chan struct{} // closed at its end
	err  error         // then: what the store said to all of them
}

// take takes one request, from the lease or with a new one. Of callers who need a
// new one at once one asks the store. When the store fails, the others fail with
// it, so that they do not wait for it one after the other.
func (l *lease) take(ctx context.Context, store Store, of *runtime.Limit, now time.Time) error {
	for {
		asking, mine, err := l.fromLease(of, now)
		switch {
		case asking == nil:
			return err
		case mine:
			return l.ask(ctx, asking, store, of, now)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-asking.over:
		}
		if asking.err != nil {
			return asking.err
		}
	}
}

// fromLease takes one request from the lease, or refuses it, as far as that is
// known without the store; else it returns the attempt to wait for, or a new one
// that is the caller's to make.
func (l *lease) fromLease(of *runtime.Limit, now time.Time) (asking *attempt, mine bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asking != nil {
		return l.asking, false, nil
	}
	if !l.fresh(now) {
		l.left, l.size = 0, 0
	}
	if l.left > 0 {
		l.left--
		return nil, false, nil
	}
	// Also after a clock that was set back: a bucket refills in a known time.
	if wait := l.empty.Sub(now); wait > 0 && wait <= of.Every {
		return nil, false, refused(of, wait)
	}
	l.asking = &attempt{over: make(chan struct{})}
	return l.asking, true, nil
}

// ask takes one request with a new lease.
func (l *lease) ask(ctx context.Context, asking *attempt, store Store, of *runtime.Limit, now time.Time) (err error) {
	got, wait, wanted := 0, time.Duration(0), l.next(of) // size is nobody else's to change until the end
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case err != nil && ctx.Err() == nil:
			asking.err = err
		case err != nil: // this caller left, which is not the store's answer to the others
		case got == 0:
			l.empty = now.Round(0).Add(wait)
			err = refused(of, wait)
		default: // plus what was put back meanwhile
			l.left, l.size, l.from, l.empty = l.left+got-1, got, now, time.Time{}
		}
		l.asking = nil
		close(asking.over)
	}()
	return store.ChangeLimit(ctx, of.Bucket, func(full time.Time) time.Time {
		full, got, wait = draw(of, full, now, wanted)
		return full
	})
}

// next is how much to ask for: twice the last lease when that one was used up
// in time, else one.
func (l *lease) next(of *runtime.Limit) int {
	return max(1, min(2*l.size, of.Burst/4, mostLease))
}

// fresh reports whether the lease may still be used. Of callers who come at once, one
// may have read the clock before the one who made the lease. While the machine slept the
// bucket has filled again.
func (l *lease) fresh(now time.Time) bool {
	return now.Sub(l.from) > -leaseTime && system.Elapsed(l.from, now) < leaseTime
}

// putBack returns a request that was taken a moment ago.
func (l *lease) putBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left++
}

// idle reports whether there is nothing to lose with the lease.
func (l *lease) idle(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asking == nil && !l.fresh(now)
}

// draw takes up to wanted requests from a bucket that is full at a moment. It
// returns when the bucket is full then, how much was taken, and where that is
// nothing, how long until there is one. A bucket cannot be emptier than empty: a
// clock that was set back empties it, and it refills from there.
func draw(of *runtime.Limit, full, now time.Time, wanted int) (after time.Time, got int, wait time.Duration) {
	lacking := min(max(full.Sub(now), 0), time.Duration(of.Burst)*of.Every)
	room := time.Duration(of.Burst)*of.Every - lacking
	got = min(int(room/of.Every), wanted)
	if got == 0 {
		return now.Add(lacking), 0, of.Every - room
	}
	return now.Add(lacking + time.Duration(got)*of.Every), got, 0
}
