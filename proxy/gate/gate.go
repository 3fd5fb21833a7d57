// Package gate bounds how much each owner, and all owners together, may have going at the same
// time: requests, tunnels, bytes of memory. Whoever would exceed a bound waits in turn. It knows
// nothing of what it counts, and never asks anybody to leave; whoever waits may.
//
// Start reading at [New] and [Gate.Enter].
package gate

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Gate lets in so much at a time, of each owner and in all. What finds no room waits, in a
// queue that is bounded too: first come first served within one owner, in turn between owners,
// so that nobody's crowd is in the way of another's single request. It is safe for concurrent
// use.
//
// While nobody waits, Join and Leave take no lock: they count with atomics, and
// never above a limit. Who finds no room raises pressed before it looks again
// under the lock, and who leaves looks at pressed after it has made room, so that
// one of the two sees the other.
type Gate[K comparable] struct {
	each  func(K) int64 // what one owner may have in
	all   int64
	queue int // how many of one owner may wait
	crowd int // how many may wait in all

	used    atomic.Int64
	pressed atomic.Int64                   // who waits, or looks whether it must: all take the lock
	lines   atomic.Pointer[map[K]*line[K]] // read without the lock; never written to, but replaced under it

	mu      sync.Mutex
	waiting int
	short   bool       // the next in turn waits for room in all: nobody overtakes it
	turn    []*line[K] // the owners of which somebody waits, the next one first
	sweep   int        // how many lines there must be before the idle ones are forgotten
}

// line is one owner's part.
type line[K comparable] struct {
	owner K
	most  int64
	used  atomic.Int64 // forgotten: it is no longer among the lines
	wait  []*Waiter[K] // under the gate's lock
}

// forgotten, in line.used, is far enough below zero for nothing to be let in.
const forgotten = math.MinInt64 / 2

// idleLines is how many owners are remembered before the first sweep.
const idleLines = 64

// Waiter is one who waits. Its channel is closed once it is let in.
type Waiter[K comparable] struct {
	line *line[K]
	n    int64
	in   chan struct{}
}

// Lack says why there was no way in.
type Lack int

// What there was a lack of, the more of it the greater.
const (
	None Lack = iota
	Own       // the owner has as much in as it may, or as many waiting
	All       // so have all together
	Gone      // who waited has gone
)

// New makes a gate that has room for each(owner) of one owner and for all together. At most
// queue of one owner may wait, and at most crowd together.
func New[K comparable](each func(K) int64, all int64, queue, crowd int) *Gate[K] {
	g := &Gate[K]{each: each, all: all, queue: queue, crowd: crowd, sweep: idleLines}
	g.lines.Store(&map[K]*line[K]{})
	return g
}

// PerOwner is a limit that is the same for every owner.
func PerOwner(n int64) func(string) int64 { return func(string) int64 { return n } }

// Enter lets n of owner in, and waits for room until a time at the latest. Anything but None
// says why it did not. While it waits, room (which may be nil) is called at once and then four
// times a second: it may end what can be ended. Whoever was let in calls Leave.
func (g *Gate[K]) Enter(ctx context.Context, owner K, n int64, until time.Time, room func(Lack)) Lack {
	w, why := g.Join(owner, n)
	if w == nil {
		return why
	}
	return g.Await(ctx, w, until, room)
}

// Join lets n of owner in, or gives it a place in the queue for Await; with
// neither, why is not None. More than there can ever be room for counts as
// all the room there is.
func (g *Gate[K]) Join(owner K, n int64) (w *Waiter[K], why Lack) {
	if l := (*g.lines.Load())[owner]; l != nil && g.pressed.Load() == 0 && g.take(l, l.share(g, n)) == None {
		return nil, None
	}
	g.pressed.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.serve() // before us, those whom our attempt may have kept out
	l := (*g.lines.Load())[owner]
	if l == nil {
		l = g.open(owner)
	}
	if w, why = g.queueUp(l, l.share(g, n)); w == nil {
		g.pressed.Add(-1)
	}
	return w, why
}

// queueUp is Join under the lock. Who waits stays counted in pressed.
func (g *Gate[K]) queueUp(l *line[K], n int64) (w *Waiter[K], why Lack) {
	if len(l.wait) > 0 || g.short {
		why = g.lacks(l, n)
	} else if why = g.take(l, n); why == None {
		return nil, None
	}
	if len(l.wait) >= g.queue || g.waiting >= g.crowd {
		if g.short {
			why = All
		}
		return nil, max(why, Own)
	}
	w = &Waiter[K]{line: l, n: n, in: make(chan struct{})}
	if len(l.wait) == 0 {
		g.turn = append(g.turn, l)
	}
	l.wait = append(l.wait, w)
	g.waiting++
	g.short = g.short || why == All
	return w, why
}

// share is how much n counts: more than there can ever be room for is all of it.
func (l *line[K]) share(g *Gate[K], n int64) int64 { return min(n, g.all, l.most) }

// take lets n in if there is room for it now.
func (g *Gate[K]) take(l *line[K], n int64) Lack {
	if !grow(&l.used, n, l.most) {
		return Own
	}
	if !grow(&g.used, n, g.all) {
		l.used.Add(-n)
		return All
	}
	return None
}

// grow adds n to a count that holds at most so much, and is not forgotten.
func grow(count *atomic.Int64, n, most int64) bool {
	for {
		have := count.Load()
		if have < 0 || have+n > most {
			return false
		}
		if count.CompareAndSwap(have, have+n) {
			return true
		}
	}
}

// Await waits for the waiter's turn; room, which may be nil, is as of Enter.
func (g *Gate[K]) Await(ctx context.Context, w *Waiter[K], until time.Time, room func(Lack)) Lack {
	end := time.NewTimer(time.Until(until))
	defer end.Stop()
	var again <-chan time.Time // nil: there is nothing to try
	if room != nil {
		tick := time.NewTicker(tryAgain)
		defer tick.Stop()
		again = tick.C
	}
	for {
		if room != nil {
			room(g.why(w))
		}
		select {
		case <-w.in:
			return None
		case <-again:
		case <-end.C:
			return g.abandon(w, false)
		case <-ctx.Done():
			return g.abandon(w, true)
		}
	}
}

// tryAgain is how long one who waits leaves between two looks for something to end.
const tryAgain = 250 * time.Millisecond

// Leave takes n of owner out, as much as was let in.
func (g *Gate[K]) Leave(owner K, n int64) {
	g.Shrink(owner, n, 0)
}

// Shrink takes out all but to of what was let in as from.
func (g *Gate[K]) Shrink(owner K, from, to int64) {
	l := (*g.lines.Load())[owner] // it stays: something of it is in
	g.free(l, l.share(g, from)-l.share(g, to))
	if g.pressed.Load() > 0 {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.serve()
	}
}

// In is how much is in, of all owners.
func (g *Gate[K]) In() int64 { return g.used.Load() }

// Waiting is how many wait, of all owners.
func (g *Gate[K]) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

// Of is how much of owner is in.
func (g *Gate[K]) Of(owner K) int64 {
	if l := (*g.lines.Load())[owner]; l != nil {
		return max(0, l.used.Load())
	}
	return 0
}

func (g *Gate[K]) free(l *line[K], n int64) {
	l.used.Add(-n)
	g.used.Add(-n)
}

// serve lets in who waits, in turn, as far as there is room.
func (g *Gate[K]) serve() {
	g.short = false
	for i := 0; i < len(g.turn); {
		l := g.turn[i]
		w := l.wait[0]
		switch g.take(l, w.n) {
		case Own:
			i++
			continue
		case All:
			g.short = true
			return
		}
		g.drop(w)
		close(w.in)
		if len(l.wait) > 0 { // its turn is over
			g.turn = append(slices.Delete(g.turn, i, i+1), l)
		}
	}
}

// lacks says what stands between n and the way in.
func (g *Gate[K]) lacks(l *line[K], n int64) Lack {
	switch {
	case l.used.Load()+n > l.most:
		return Own
	case g.used.Load()+n > g.all:
		return All
	}
	return None
}

// drop takes a waiter out of the queue.
func (g *Gate[K]) drop(w *Waiter[K]) {
	l := w.line
	l.wait = slices.DeleteFunc(l.wait, func(other *Waiter[K]) bool { return other == w })
	g.waiting--
	g.pressed.Add(-1)
	if len(l.wait) == 0 {
		g.turn = slices.DeleteFunc(g.turn, func(other *line[K]) bool { return other == l })
	}
}

// abandon ends a wait, unless its end has come in the meantime.
func (g *Gate[K]) abandon(w *Waiter[K], gone bool) Lack {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-w.in:
		if !gone {
			return None
		}
		g.free(w.line, w.n)
		g.serve()
		return Gone
	default:
	}
	why := max(g.lacks(w.line, w.n), Own)
	g.drop(w)
	if gone {
		why = Gone
	}
	g.serve() // those behind it may have been waiting for it
	return why
}

func (g *Gate[K]) why(w *Waiter[K]) Lack {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lacks(w.line, w.n)
}

// open makes the line of an owner. When there are many, it forgets those of which
// nothing is in and nobody waits.
func (g *Gate[K]) open(owner K) *line[K] {
	lines := maps.Clone(*g.lines.Load())
	if len(lines) >= g.sweep {
		maps.DeleteFunc(lines, func(_ K, l *line[K]) bool {
			return len(l.wait) == 0 && l.used.CompareAndSwap(0, forgotten)
		})
		g.sweep = 2*len(lines) + idleLines
	}
	l := &line[K]{owner: owner, most: g.each(owner)}
	lines[owner] = l
	g.lines.Store(&lines)
	return l
}
