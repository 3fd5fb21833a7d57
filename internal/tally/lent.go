package tally

import (
	"context"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// How many runs of a kimbap elsewhere are counted at a time. Those over it go on
// uncounted.
const (
	lentRunsEach = 64 // of one principal
	lentRunsAll  = 1024
)

// lentRunKept is how long the counts of a run stay after its last connection.
const lentRunKept = time.Hour

// Lent counts the requests of the runs that borrow the proxy. A run is named by
// whoever borrows, so it is one of that principal's only.
type Lent struct {
	clock func() time.Time
	mu    sync.Mutex
	runs  map[lentKey]*lentRun
	byRun map[string]*lentRun // the same, as requests name them
	count map[string]int      // by principal
}

type lentKey struct{ who, run string }

type lentRun struct {
	tally Counter
	open  int
	empty chan struct{} // closed while open is 0
	last  time.Time     // of the last connection's end
}

// NewLent returns one that counts no run yet.
func NewLent(clock func() time.Time) *Lent {
	return &Lent{clock: clock, runs: map[lentKey]*lentRun{}, byRun: map[string]*lentRun{}, count: map[string]int{}}
}

// Enter notes a connection of a run. One that is not counted, since there are too many
// or another principal has a run of that name, is to be of none.
func (r *Lent) Enter(who runtime.Principal, name string) (leave func(), counted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := lentKey{who.Owner(), name}
	run := r.runs[key]
	if run == nil {
		r.forget()
		if r.byRun[name] != nil || r.count[key.who] >= lentRunsEach || len(r.runs) >= lentRunsAll {
			return func() {}, false
		}
		run = &lentRun{}
		r.runs[key], r.byRun[name] = run, run
		r.count[key.who]++
	}
	if run.open++; run.open == 1 {
		run.empty = make(chan struct{})
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if run.open--; run.open == 0 {
			run.last = r.clock()
			close(run.empty)
		}
	}, true
}

// forget drops runs that ended long ago.
func (r *Lent) forget() {
	now := r.clock()
	for key, run := range r.runs {
		if run.open == 0 && now.Sub(run.last) > lentRunKept {
			delete(r.runs, key)
			delete(r.byRun, key.run)
			if r.count[key.who]--; r.count[key.who] == 0 {
				delete(r.count, key.who)
			}
		}
	}
}

// Ended returns the counts of a run once no connection of it is open, or ctx has
// ended; nil for a run that is not counted.
func (r *Lent) Ended(ctx context.Context, who runtime.Principal, name string) *Counter {
	r.mu.Lock()
	run := r.runs[lentKey{who.Owner(), name}]
	var empty chan struct{}
	if run != nil {
		empty = run.empty
	}
	r.mu.Unlock()
	if run == nil {
		return nil
	}
	select {
	case <-empty:
	case <-ctx.Done():
	}
	return &run.tally
}

// Note counts a request that has ended, if it is of a run. A nil one counts nothing.
func (r *Lent) Note(rec *runtime.Record) {
	if r == nil {
		return
	}
	if run := r.named(rec.Via); run != nil {
		run.tally.Note(rec)
	}
}

// named is the run that a request is of, nil when it is of none.
func (r *Lent) named(via *runtime.Via) *lentRun {
	if via == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byRun[via.Run]
}
