package limit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/limit"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(runtimetest.Settled{M: m}) }

// store is a store that several limiters, as of several processes, share.
type store struct {
	mu     sync.Mutex
	full   map[string]time.Time
	writes int
	err    error
}

func newStore() *store { return &store{full: map[string]time.Time{}} }

func (s *store) ChangeLimit(_ context.Context, bucket string, change func(time.Time) time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.writes++
	s.full[bucket] = change(s.full[bucket]).Round(0) // by the wall, as every store does
	return nil
}

func process(t interface{ Fatal(...any) }, s *store) *limit.Limiter {
	l, err := limit.New(limit.Options{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func bucket(name string, burst int, every time.Duration) runtime.Limit {
	return runtime.Limit{Rule: "polite", Bucket: name, Burst: burst, Every: every}
}

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func take(t *testing.T, l *limit.Limiter, at time.Time, limits ...runtime.Limit) *runtime.Error {
	t.Helper()
	err := l.Take(t.Context(), limits, at)
	if err == nil {
		return nil
	}
	return runtime.AsError(err)
}

func TestABurstPassesThenTheRate(t *testing.T) {
	l, b := process(t, newStore()), bucket("a", 20, time.Second)
	for i := range 20 {
		if e := take(t, l, start, b); e != nil {
			t.Fatalf("request %d: %v", i+1, e)
		}
	}
	e := take(t, l, start, b)
	if e == nil || e.Code != runtime.CodeRateLimited || e.Reason != runtime.ReasonOverLimit || e.RetryAfter != time.Second || e.Rule != "polite" {
		t.Fatalf("request 21: %+v", e)
	}
	if e := take(t, l, start.Add(999*time.Millisecond), b); e == nil || e.RetryAfter != time.Millisecond {
		t.Fatalf("just before: %+v", e)
	}
	if e := take(t, l, start.Add(time.Second), b); e != nil {
		t.Fatalf("when it said: %v", e)
	}
	if e := take(t, l, start.Add(time.Second), b); e == nil {
		t.Fatal("two for one second")
	}
}

func TestBucketsAreApart(t *testing.T) {
	l := process(t, newStore())
	if take(t, l, start, bucket("a", 1, time.Hour)) != nil || take(t, l, start, bucket("b", 1, time.Hour)) != nil {
		t.Error("one bucket emptied the other")
	}
}

// A request over one of its limits takes nothing from the others.
func TestAllOrNone(t *testing.T) {
	l, wide, narrow := process(t, newStore()), bucket("wide", 3, time.Hour), bucket("narrow", 1, time.Hour)
	if e := take(t, l, start, wide, narrow); e != nil {
		t.Fatal(e)
	}
	for range 10 {
		if take(t, l, start, wide, narrow) == nil {
			t.Fatal("the narrow limit does not hold")
		}
	}
	for range 2 {
		if take(t, l, start, wide) != nil {
			t.Error("refused requests took from the other limit")
		}
	}
	if take(t, l, start, wide) == nil {
		t.Error("more than the limit")
	}
}

// Refusing writes nothing, and busy processes write far less than once per
// request.
func TestWritesAreFew(t *testing.T) {
	s := newStore()
	l, b := process(t, s), bucket("a", 1000, time.Millisecond)
	for i := range 1000 {
		if e := take(t, l, start.Add(time.Duration(i)*time.Microsecond), b); e != nil {
			t.Fatal(e)
		}
	}
	if s.writes > 20 {
		t.Errorf("%d writes for 1000 requests", s.writes)
	}
	slow := bucket("slow", 1, time.Hour)
	_ = take(t, l, start, slow)
	_ = take(t, l, start, slow)
	s.writes = 0
	for i := range 100 {
		if take(t, l, start.Add(time.Duration(i)*time.Second), slow) == nil {
			t.Fatal("over the limit")
		}
	}
	if s.writes != 0 {
		t.Errorf("%d writes for refusals", s.writes)
	}
}

// A store that does not answer refuses: nothing passes uncounted.
func TestAStoreThatFailsRefuses(t *testing.T) {
	s := newStore()
	l, b := process(t, s), bucket("a", 5, time.Second)
	s.err = &runtime.Error{Code: runtime.CodeStorageBusy, Msg: "busy"}
	if e := take(t, l, start, b); e == nil || e.Code != runtime.CodeStorageBusy {
		t.Fatalf("%+v", e)
	}
	s.err = nil
	if e := take(t, l, start, b); e != nil {
		t.Fatal(e)
	}
}

// slow is a store that fails after a while, or when its caller leaves.
type slow struct {
	lasting time.Duration
	asked   atomic.Int64
}

var errSlow = errors.New("busy")

func (s *slow) ChangeLimit(ctx context.Context, _ string, _ func(time.Time) time.Time) error {
	s.asked.Add(1)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.lasting):
		return errSlow
	}
}

// slowly is a limiter over a store that fails after two seconds.
func slowly(t *testing.T) (*slow, *limit.Limiter) {
	t.Helper()
	s := &slow{lasting: 2 * time.Second}
	l, err := limit.New(limit.Options{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	return s, l
}

// Who waits for a store that another asks already shares its answer, and does not
// wait for one of its own after it.
func TestWhoWaitsForAFailingStoreSharesItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := slowly(t)
		begin := time.Now()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if err := l.Take(context.Background(), []runtime.Limit{bucket("a", 5, time.Second)}, start); !errors.Is(err, errSlow) {
					t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(begin); took != s.lasting || s.asked.Load() != 1 {
			t.Errorf("took %s and %d attempts", took, s.asked.Load())
		}
		if err := l.Take(t.Context(), []runtime.Limit{bucket("a", 5, time.Second)}, start); !errors.Is(err, errSlow) || s.asked.Load() != 2 {
			t.Errorf("later: %v after %d attempts", err, s.asked.Load())
		}
	})
}

// A caller who leaves does not wait on, and takes nobody with it.
func TestWhoLeavesDoesNotWaitForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l := slowly(t)
		begin := time.Now()
		var wg sync.WaitGroup
		for i, leaves := range []time.Duration{time.Second, 100 * time.Millisecond, time.Hour} { // the first asks
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), leaves)
				defer cancel()
				err := l.Take(ctx, []runtime.Limit{bucket("a", 5, time.Second)}, start)
				took, left := time.Since(begin), i < 2
				switch {
				case left && (took != leaves || !errors.Is(err, context.DeadlineExceeded)):
					t.Errorf("%d: %v after %s", i, err, took)
				case !left && (took != 3*time.Second || !errors.Is(err, errSlow)): // asked itself, when the first left
					t.Errorf("%d: %v after %s", i, err, took)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
	})
}

// A clock that is set back opens nothing, and does not close for long.
func TestAClockSetBack(t *testing.T) {
	l, b := process(t, newStore()), bucket("a", 4, time.Second)
	for range 4 {
		if e := take(t, l, start, b); e != nil {
			t.Fatal(e)
		}
	}
	earlier := start.Add(-time.Hour)
	if take(t, l, earlier, b) == nil {
		t.Error("an earlier time filled the bucket")
	}
	if e := take(t, l, earlier.Add(time.Second), b); e != nil {
		t.Errorf("a second later: %v", e)
	}
}

// Whatever processes do and whenever they die, in no time t more than
// burst + (t + 1s)·rate requests pass.
func TestNoMoreThanTheBoundPasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStore()
		processes := []*limit.Limiter{process(t, s), process(t, s), process(t, s)}
		b := bucket("a", rapid.IntRange(1, 60).Draw(t, "burst"), time.Duration(rapid.IntRange(1, 2000).Draw(t, "every"))*time.Millisecond)
		now, passed := start, []time.Time{}
		for range rapid.IntRange(1, 300).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 10, 100, 999, 1000, 5000}).Draw(t, "pause")) * time.Millisecond)
			which := rapid.IntRange(0, 2).Draw(t, "process")
			if rapid.IntRange(0, 50).Draw(t, "dies") == 0 {
				processes[which] = process(t, s)
			}
			if processes[which].Take(context.Background(), []runtime.Limit{b}, now) == nil {
				passed = append(passed, now)
			}
		}
		for i := range passed {
			for j := i; j < len(passed); j++ {
				most := b.Burst + int((passed[j].Sub(passed[i])+time.Second)/b.Every) + 1 // the +1 is of rounding
				if got := j - i + 1; got > most {
					t.Fatalf("%d passed in %s, at most %d may", got, passed[j].Sub(passed[i]), most)
				}
			}
		}
	})
}

// What is left of a lease after its second is lost, not added to a full bucket.
func TestALeaseLapses(t *testing.T) {
	l, b := process(t, newStore()), bucket("a", 40, time.Second)
	for range 4 { // leases of 1, 2 and 4
		if e := take(t, l, start, b); e != nil {
			t.Fatal(e)
		}
	}
	passed := 0
	for range 100 {
		if take(t, l, start.Add(50*time.Second), b) == nil {
			passed++
		}
	}
	if passed != 40 {
		t.Errorf("%d of a full bucket of 40", passed)
	}
}

// Of callers who come at once, one looks at the clock before the other and takes its request
// after it: the lease that the other has made serves both.
func TestWhoLookedAtTheClockEarlierLosesNoLease(t *testing.T) {
	l, b := process(t, newStore()), bucket("a", 400, time.Hour)
	for i := range 400 {
		if e := take(t, l, start.Add(-time.Duration((i+1)%2)*time.Microsecond), b); e != nil {
			t.Fatalf("request %d of a burst of 400: %v", i+1, e)
		}
	}
	if take(t, l, start, b) == nil {
		t.Error("more than the burst passed")
	}
}

// A wait that is told is honest: with nobody else about, the request passes then.
func TestTheWaitIsHonest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := process(t, newStore())
		b := bucket("a", rapid.IntRange(1, 20).Draw(t, "burst"), time.Duration(rapid.IntRange(1, 5000).Draw(t, "every"))*time.Millisecond)
		now := start
		for range 100 {
			now = now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "pause")) * time.Millisecond)
			err := l.Take(context.Background(), []runtime.Limit{b}, now)
			if err == nil {
				continue
			}
			now = now.Add(runtime.AsError(err).RetryAfter)
			if err := l.Take(context.Background(), []runtime.Limit{b}, now); err != nil {
				t.Fatalf("told to wait until now: %v", err)
			}
		}
	})
}

func TestManyAtOnceTakeNoMoreThanTheBurst(t *testing.T) {
	s := newStore()
	processes := []*limit.Limiter{process(t, s), process(t, s), process(t, s), process(t, s)}
	var yes atomic.Int64
	var wg sync.WaitGroup
	for i := range 400 {
		wg.Go(func() {
			err := processes[i%4].Take(context.Background(), []runtime.Limit{bucket("a", 100, time.Hour)}, start)
			var e *runtime.Error
			switch {
			case err == nil:
				yes.Add(1)
			case !errors.As(err, &e) || e.Code != runtime.CodeRateLimited:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := yes.Load(); n > 100 || n < 25 { // what others lease and do not use is lost
		t.Errorf("%d of 400 passed a burst of 100", n)
	}
}

// What is remembered of buckets stays bounded, and forgetting opens none.
func TestForgettingBucketsOpensNone(t *testing.T) {
	l := process(t, newStore())
	for i := range 20_000 {
		b := bucket(fmt.Sprint(i), 1, time.Minute)
		at := start.Add(time.Duration(i) * time.Millisecond)
		if take(t, l, at, b) != nil || take(t, l, at, b) == nil {
			t.Fatalf("bucket %d does not hold one request", i)
		}
	}
}

func TestOptionsAreRequired(t *testing.T) {
	if _, err := limit.New(limit.Options{}); err == nil {
		t.Error("a limiter without a store")
	}
}

func BenchmarkTake(b *testing.B) {
	l := process(b, newStore())
	limits := []runtime.Limit{bucket("a", 1_000_000, time.Nanosecond)}
	for i := 0; b.Loop(); i++ {
		if err := l.Take(context.Background(), limits, start.Add(time.Duration(i)*time.Microsecond)); err != nil {
			b.Fatal(err)
		}
	}
}
