package lease

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// token is one that is prolonged, on a clock of the test's.
type token struct {
	now   time.Time
	asked int
	left  time.Duration
	good  bool
	err   error
	told  int
}

func (k *token) lease(left time.Duration) *Lease {
	prolong := func(context.Context) (time.Duration, bool, error) { k.asked++; return k.left, k.good, k.err }
	return New(func() time.Time { return k.now }, left, prolong, func(error) { k.told++ })
}

// after looks again when so much time has gone by, and demands that it was or was not
// tried to prolong the token.
func (k *token) after(t *testing.T, l *Lease, d time.Duration, tried bool) {
	t.Helper()
	before := k.asked
	k.now = k.now.Add(d)
	l.Look(t.Context())
	if (k.asked > before) != tried {
		t.Errorf("%s later: tried %v, want %v", d, k.asked > before, tried)
	}
}

func TestATokenIsProlongedWhenHalfOfItsLifeIsOver(t *testing.T) {
	k := &token{left: 4 * time.Hour, good: true}
	l := k.lease(time.Hour)
	k.after(t, l, 29*time.Minute, false)
	k.after(t, l, time.Minute, true)
	k.after(t, l, 119*time.Minute, false) // its life is four hours now
	k.after(t, l, time.Minute, true)
}

// A machine that falls asleep while a token is prolonged wakes with one that is over.
func TestSleepWhileATokenIsProlongedCounts(t *testing.T) {
	k := &token{left: time.Hour, good: true}
	l := New(func() time.Time { return k.now }, time.Hour, func(context.Context) (time.Duration, bool, error) {
		k.asked++
		k.now = k.now.Add(72 * time.Hour)
		return k.left, true, nil
	}, func(error) {})
	k.after(t, l, 30*time.Minute, true)
	k.after(t, l, 0, true)
}

// The kimbap that made the token has a clock of its own: what is done to that of this machine
// keeps no token from being prolonged.
func TestAClockThatIsSetBackHoldsNothingUp(t *testing.T) {
	k := &token{now: time.Now(), left: time.Hour, good: true}
	l := k.lease(time.Hour)
	k.now = runtimetest.Asleep(k.now, -2*time.Hour)
	k.after(t, l, 29*time.Minute, false)
	k.after(t, l, time.Minute, true)
	k.now = runtimetest.Asleep(k.now, 4*time.Hour) // and so does sleep
	k.after(t, l, 0, true)
}

func TestAFailureIsToldAndTriedAgainSoon(t *testing.T) {
	k := &token{err: errors.New("no answer")}
	l := k.lease(time.Hour)
	k.after(t, l, 30*time.Minute, true)
	k.after(t, l, retry-time.Second, false)
	k.after(t, l, time.Second, true)
	if k.told != 2 {
		t.Errorf("told of %d failures of two", k.told)
	}
}

func TestARevokedTokenIsNotProlongedAnyMore(t *testing.T) {
	k := &token{good: false}
	l := k.lease(time.Hour)
	k.after(t, l, time.Hour, true)
	k.after(t, l, 24*time.Hour, false)
	if k.told != 0 {
		t.Error("its end is no failure")
	}
}

func TestATokenOfNoLifeIsNotAskedForWithoutPause(t *testing.T) {
	k := &token{left: 0, good: true}
	l := k.lease(0)
	k.after(t, l, 0, false)
	k.after(t, l, retry, true)
	k.after(t, l, retry/2, false)
}
