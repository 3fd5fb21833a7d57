package limit

import (
	"context"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

const (
	leaseTime = time.Second // after which what is left of a lease is lost
	mostLease = 100         // requests
)

// lease is what a process holds of one bucket.
type lease struct {
	mu    sync.Mutex
	left  int       // requests
	size  int       // of the lease when it was made
	from  time.Time // when that was
	empty time.Time // the bucket has nothing before this
}

// take takes one request, from the lease or with a new one.
func (l *lease) take(ctx context.Context, store Store, of *runtime.Limit, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.fresh(now) {
		l.left, l.size = 0, 0
	}
	if l.left > 0 {
		l.left--
		return nil
	}
	// Also after a clock that was set back: a bucket refills in a known time.
	if wait := l.empty.Sub(now); wait > 0 && wait <= of.Every {
		return refused(of, wait)
	}
	got, wait := 0, time.Duration(0)
	err := store.ChangeLimit(ctx, of.Bucket, func(full time.Time) time.Time {
		full, got, wait = draw(of, full, now, l.next(of))
		return full
	})
	if err != nil {
		return err
	}
	if got == 0 {
		l.empty = now.Add(wait)
		return refused(of, wait)
	}
	l.left, l.size, l.from, l.empty = got-1, got, now, time.Time{}
	return nil
}

// next is how much to ask for: twice the last lease when that one was used up
// in time, else one.
func (l *lease) next(of *runtime.Limit) int {
	return max(1, min(2*l.size, of.Burst/4, mostLease))
}

// fresh reports whether the lease may still be used.
func (l *lease) fresh(now time.Time) bool {
	age := now.Sub(l.from)
	return age >= 0 && age < leaseTime
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
	return !l.fresh(now)
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
