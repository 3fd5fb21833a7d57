package approval

import (
	"context"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

const (
	lateEvery = time.Second     // how often an end that could not be written is tried again
	lateTry   = 5 * time.Second // how long one try may take
	lastEvery = 100 * time.Millisecond
)

// end is how an execution ended.
type end struct {
	id     string
	tenant runtime.Tenant
	to     State
	change Change
}

// lateEnds are ends that the store has not taken yet: no more than executions that
// were under way, since none begins while nothing can be written. What this process
// takes with it when it dies becomes unknown, as everything it executed.
type lateEnds struct {
	ends   []end // under the desk's lock, as busy and closed
	busy   bool  // somebody tries again
	closed bool
	open   context.Context // until Close
	close  context.CancelFunc
	work   sync.WaitGroup
}

// write closes an approval that executes; false when it does not any more.
func (d *Desk) write(ctx context.Context, e *end) (bool, error) {
	return d.move(ctx, e.tenant, e.id, Executing, e.to, e.change)
}

// later keeps an end that could not be written. What was executed is done: only its
// end is not known to others yet, and nobody executes it again meanwhile.
func (d *Desk) later(e end, err error) {
	d.mu.Lock()
	d.late.ends = append(d.late.ends, e)
	if !d.late.busy && !d.late.closed {
		d.late.busy = true
		d.late.work.Go(d.tryLater)
	}
	d.mu.Unlock()
	d.tellLate(e.id, err)
}

func (d *Desk) tellLate(id string, err error) {
	if d.o.Late != nil {
		d.o.Late(id, err)
	}
}

// tryLater writes what is late, until nothing is or the desk is closed.
func (d *Desk) tryLater() {
	for {
		select {
		case <-d.late.open.Done():
			return
		case <-time.After(lateEvery):
		}
		ctx, cancel := context.WithTimeout(d.late.open, lateTry)
		done := d.writeLate(ctx)
		cancel()
		if done {
			return
		}
	}
}

// writeLate tries each end that is late once; true when none is left.
func (d *Desk) writeLate(ctx context.Context) bool {
	d.mu.Lock()
	ends := d.late.ends
	d.late.ends = nil
	d.mu.Unlock()
	var still []end
	for i := range ends {
		moved, err := d.write(ctx, &ends[i])
		switch {
		case err != nil:
			still = append(still, ends[i])
		case !moved: // somebody who took this process for dead has said unknown
			d.tellLate(ends[i].id, notExecuting(ends[i].id))
		default:
			d.tellLate(ends[i].id, nil)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.late.ends = append(still, d.late.ends...)
	d.late.busy = len(d.late.ends) > 0
	return !d.late.busy
}

// Close writes the ends that are late, trying until ctx ends. It can be called again.
func (d *Desk) Close(ctx context.Context) {
	d.mu.Lock()
	d.late.closed = true
	d.mu.Unlock()
	d.late.close()
	d.late.work.Wait()
	for !d.writeLate(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lastEvery):
		}
	}
}
