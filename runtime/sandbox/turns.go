package sandbox

import (
	"context"
	"slices"
	"sync"
)

// turns lets so many scripts run at a time. The others wait in a queue that is
// bounded: of one owner first come first served, between owners in turn, and one
// owner has at most half of it, so that nobody's crowd is in the way of others.
type turns struct {
	workers, queue int

	mu      sync.Mutex
	running int
	waiting int
	lines   map[string][]chan struct{} // by owner: who waits, each closed once it is let in
	next    []string                   // the owners of which somebody waits, the next one first
}

func newTurns(workers, queue int) *turns {
	return &turns{workers: workers, queue: queue, lines: map[string][]chan struct{}{}}
}

// share is how much of the queue one owner may have.
func (t *turns) share() int { return (t.queue + 1) / 2 }

// free takes a turn where nobody need wait for one.
func (t *turns) free() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.take()
}

// take is free, with the lock held.
func (t *turns) take() bool {
	free := t.running < t.workers && t.waiting == 0
	if free {
		t.running++
	}
	return free
}

// enter waits for a turn; ok is false when there is no place to wait. The error is
// that of ctx. Who got a turn gives it back with leave.
func (t *turns) enter(ctx context.Context, owner string) (ok bool, err error) {
	t.mu.Lock()
	if t.take() {
		t.mu.Unlock()
		return true, ctx.Err()
	}
	line := t.lines[owner]
	if t.waiting >= t.queue || len(line) >= t.share() {
		t.mu.Unlock()
		return false, nil
	}
	in := make(chan struct{})
	if len(line) == 0 {
		t.next = append(t.next, owner)
	}
	t.lines[owner] = append(line, in)
	t.waiting++
	t.mu.Unlock()
	select {
	case <-in:
		return true, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.lines[owner], in); i >= 0 {
		t.drop(owner, i)
		return false, ctx.Err()
	}
	t.pass() // it was let in at that moment
	return false, ctx.Err()
}

// leave gives a turn back.
func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass()
}

// pass hands a turn to the next owner's first, whose owner is then the last.
func (t *turns) pass() {
	if len(t.next) == 0 {
		t.running--
		return
	}
	owner := t.next[0]
	in := t.lines[owner][0]
	t.drop(owner, 0)
	if i := slices.Index(t.next, owner); i >= 0 {
		t.next = append(slices.Delete(t.next, i, i+1), owner)
	}
	close(in)
}

// drop takes one who waits out of the queue.
func (t *turns) drop(owner string, i int) {
	t.waiting--
	if t.lines[owner] = slices.Delete(t.lines[owner], i, i+1); len(t.lines[owner]) == 0 {
		delete(t.lines, owner)
		t.next = slices.DeleteFunc(t.next, func(o string) bool { return o == owner })
	}
}
