package sandbox

import (
	"context"
	"slices"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

const (
	lateEvery = time.Second     // how often a result that could not be kept is tried again
	lateTry   = 5 * time.Second // how long one round of that may take
	lastEvery = 100 * time.Millisecond
	lastFor   = time.Second // how long Dispose tries
	lateBytes = 32 << 20    // of all results that are late; one alone may have more
	mostLost  = 10_000      // ids of those that were given up
)

// unkept is said of an execution whose result was given up.
const unkept = "the script has ended, and the store refused its result for too long: what its calls did stands in the trail"

// outcome is how an execution has ended, and whose it is.
type outcome struct {
	who    runtime.Principal
	result Result
}

// lateEnds are ends that the store has not taken yet. Until it does, who asks is
// answered from memory: the script is not run again for that. One is given up when
// there are too many, when its execution would be forgotten anyway, and by Dispose.
type lateEnds struct {
	ends  []entry // under the runner's lock, as bytes and busy
	bytes int
	busy  bool            // somebody tries again
	open  context.Context // until Dispose
	close context.CancelFunc
}

// size is what an end takes of the memory for all.
func (e *entry) size() int { return len(e.told) + len(e.script) }

// ending keeps the result of an execution while nobody waits for it.
func (r *Runner) ending(who *runtime.Principal, id string, result Result, keep func()) {
	r.mu.Lock()
	r.ended[id] = outcome{*who, result}
	r.mu.Unlock()
	r.keeping.Go(keep)
}

// justEnded is the result of an execution of the principal's own that is not kept yet.
func (r *Runner) justEnded(who *runtime.Principal, id string) (Result, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o, ended := r.ended[id]; ended && o.who.ID == who.ID && o.who.Tenant == who.Tenant {
		return o.result, true
	}
	return Result{}, false
}

// last writes the end of an execution, and leaves what the store refuses for later. One
// that is broken cannot be written at all.
func (r *Runner) last(e entry, broken error) {
	err := broken
	if err == nil {
		_, err = r.keepEntry(context.Background(), &e)
	}
	var lost *runtime.Principal
	defer func() { r.tellLost(lost, e.row.ID) }()
	r.mu.Lock()
	defer r.mu.Unlock()
	e.pages = nil // of an execution that has ended nobody reads them
	many := len(r.late.ends) >= r.o.Late || len(r.late.ends) > 0 && r.late.bytes+e.size() > lateBytes
	switch {
	case err == nil:
		delete(r.ended, e.row.ID)
	case many, broken != nil:
		lost = r.giveUp(e.row.ID)
	default:
		r.late.ends = append(r.late.ends, e)
		r.late.bytes += e.size()
		if !r.late.busy && r.late.open.Err() == nil {
			r.late.busy = true
			r.keeping.Go(r.tryLater)
		}
	}
}

// giveUp forgets a result that is not kept, but for that, and returns whose it was. It is
// called under the lock.
func (r *Runner) giveUp(id string) *runtime.Principal {
	who := r.ended[id].who
	delete(r.ended, id)
	if len(r.lost) < mostLost {
		r.lost[id] = true
	}
	return &who
}

// tellLost records that a result was given up, nil: none was. The process that comes after
// this one, and finds the execution as one that runs, knows by it that it has ended.
func (r *Runner) tellLost(who *runtime.Principal, id string) {
	if who != nil {
		_ = r.o.Record(context.Background(), Event{Kind: "exec.lost", Principal: who, Execution: id, Durable: true})
	}
}

// tryLater writes what is late, until nothing is or the runner is disposed of.
func (r *Runner) tryLater() {
	for {
		select {
		case <-r.late.open.Done():
			return
		case <-time.After(lateEvery):
		}
		ctx, cancel := context.WithTimeout(r.late.open, lateTry)
		done := r.writeLate(ctx)
		cancel()
		if done {
			return
		}
	}
}

// writeLate tries each end that is late once; true when none is left.
func (r *Runner) writeLate(ctx context.Context) bool {
	r.mu.Lock()
	ends := slices.Clone(r.late.ends)
	r.mu.Unlock()
	for i := range ends {
		_, err := r.keepEntry(ctx, &ends[i]) // false: somebody who took this process for dead has it now
		if err == nil || !r.o.Clock().Before(ends[i].row.Expires) {
			r.settled(ends[i].row.ID, err == nil)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late.busy = len(r.late.ends) > 0
	return !r.late.busy
}

// settled takes an end from those that are late: it is kept, or given up.
func (r *Runner) settled(id string, kept bool) {
	var lost *runtime.Principal
	defer func() { r.tellLost(lost, id) }()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late.ends = slices.DeleteFunc(r.late.ends, func(e entry) bool {
		if e.row.ID == id {
			r.late.bytes -= e.size()
		}
		return e.row.ID == id
	})
	if !kept {
		lost = r.giveUp(id)
	}
	delete(r.ended, id)
}

// lastTries writes the ends that are late before the runner goes, and gives up those
// that the store still refuses.
func (r *Runner) lastTries() {
	ctx, cancel := context.WithTimeout(context.Background(), lastFor)
	defer cancel()
	for !r.writeLate(ctx) {
		select {
		case <-ctx.Done():
			r.mu.Lock()
			ends := slices.Clone(r.late.ends)
			r.mu.Unlock()
			for i := range ends {
				r.settled(ends[i].row.ID, false)
			}
			return
		case <-time.After(lastEvery):
		}
	}
}

// isLost reports whether an execution was run to its end, by this process or by one that
// is gone, and its result could not be kept.
func (r *Runner) isLost(ctx context.Context, row *journal.Execution) (bool, error) {
	if row.State == journal.Running && row.Holder != r.o.Process() && r.orphaned(row) {
		return r.o.Lost(ctx, row.Tenant, row.ID)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return row.State == journal.Running && row.Holder == r.o.Process() && r.lost[row.ID], nil
}

// unkept is what is told of such an execution: how it stood last, and that it has ended.
func (st *stored) unkept() Result {
	result := st.result()
	result.Paused, result.Kind, result.Error = nil, frame.KindInterrupted, unkept
	return result
}
