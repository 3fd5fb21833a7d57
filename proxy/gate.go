package proxy

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// gate lets so much in at a time: of one owner, and in all. What finds no room
// waits, in a queue that is bounded too: of one owner first come first served,
// between owners in turn, so that nobody's crowd is in the way of another's one.
//
// While nobody waits, join and leave take no lock: they count with atomics, and
// never above a limit. Who finds no room raises pressed before it looks again
// under the lock, and who leaves looks at pressed after it has made room, so that
// one of the two sees the other.
type gate[K comparable] struct {
	each  func(K) int64 // what one owner may have in
	all   int64
	queue int // how many of one owner may wait
	crowd int // in all

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
	wait  []*waiter[K] // under the gate's lock
}

// forgotten, in line.used, is far enough below zero for nothing to be let in.
const forgotten = math.MinInt64 / 2

// idleLines is how many owners are remembered before the first sweep.
const idleLines = 64

// waiter is one who waits; in is closed once it is let in.
type waiter[K comparable] struct {
	line *line[K]
	n    int64
	in   chan struct{}
}

// lack says why there was no way in.
type lack int

const (
	lackNone lack = iota
	lackOwn       // the owner has as much in as it may, or as many waiting
	lackAll       // so have all together
	lackGone      // who waited has gone
)

func newGate[K comparable](each func(K) int64, all int64, queue, crowd int) *gate[K] {
	g := &gate[K]{each: each, all: all, queue: queue, crowd: crowd, sweep: idleLines}
	g.lines.Store(&map[K]*line[K]{})
	return g
}

// perOwner is a limit that is the same for every owner.
func perOwner(n int64) func(string) int64 { return func(string) int64 { return n } }

// enter lets n of owner in, waiting until the time for it. While it waits,
// room is called at once and then every so often: it may end what can be ended.
func (g *gate[K]) enter(ctx context.Context, owner K, n int64, until time.Time, room func(lack)) lack {
	w, why := g.join(owner, n)
	if w == nil {
		return why
	}
	return g.await(ctx, w, until, room)
}

// join lets n of owner in, or gives it a place in the queue for await; with
// neither, why is not lackNone. More than there can ever be room for counts as
// all the room there is.
func (g *gate[K]) join(owner K, n int64) (w *waiter[K], why lack) {
	if l := (*g.lines.Load())[owner]; l != nil && g.pressed.Load() == 0 && g.take(l, l.share(g, n)) == lackNone {
		return nil, lackNone
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

// queueUp is join for one who has the lock, and stays pressed while it waits.
func (g *gate[K]) queueUp(l *line[K], n int64) (w *waiter[K], why lack) {
	if len(l.wait) > 0 || g.short {
		why = g.lacks(l, n)
	} else if why = g.take(l, n); why == lackNone {
		return nil, lackNone
	}
	if len(l.wait) >= g.queue || g.waiting >= g.crowd {
		if g.short {
			why = lackAll
		}
		return nil, max(why, lackOwn)
	}
	w = &waiter[K]{line: l, n: n, in: make(chan struct{})}
	if len(l.wait) == 0 {
		g.turn = append(g.turn, l)
	}
	l.wait = append(l.wait, w)
	g.waiting++
	g.short = g.short || why == lackAll
	return w, why
}

// share is how much n counts: more than there can ever be room for is all of it.
func (l *line[K]) share(g *gate[K], n int64) int64 { return min(n, g.all, l.most) }

// take lets n in if there is room for it now.
func (g *gate[K]) take(l *line[K], n int64) lack {
	if !grow(&l.used, n, l.most) {
		return lackOwn
	}
	if !grow(&g.used, n, g.all) {
		l.used.Add(-n)
		return lackAll
	}
	return lackNone
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

// await waits for the waiter's turn; room, which may be nil, is as of enter.
func (g *gate[K]) await(ctx context.Context, w *waiter[K], until time.Time, room func(lack)) lack {
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
			return lackNone
		case <-again:
		case <-end.C:
			return g.abandon(w, false)
		case <-ctx.Done():
			return g.abandon(w, true)
		}
	}
}

// tryAgain is how often one who waits looks for something to end.
const tryAgain = 250 * time.Millisecond

// leave takes n of owner out, as much as was let in.
func (g *gate[K]) leave(owner K, n int64) {
	g.shrink(owner, n, 0)
}

// shrink takes out a part of what was let in as from: all but to.
func (g *gate[K]) shrink(owner K, from, to int64) {
	l := (*g.lines.Load())[owner] // it stays: something of it is in
	g.free(l, l.share(g, from)-l.share(g, to))
	if g.pressed.Load() > 0 {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.serve()
	}
}

func (g *gate[K]) free(l *line[K], n int64) {
	l.used.Add(-n)
	g.used.Add(-n)
}

// serve lets in who waits, in turn, as far as there is room.
func (g *gate[K]) serve() {
	g.short = false
	for i := 0; i < len(g.turn); {
		l := g.turn[i]
		w := l.wait[0]
		switch g.take(l, w.n) {
		case lackOwn:
			i++
			continue
		case lackAll:
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
func (g *gate[K]) lacks(l *line[K], n int64) lack {
	switch {
	case l.used.Load()+n > l.most:
		return lackOwn
	case g.used.Load()+n > g.all:
		return lackAll
	}
	return lackNone
}

// drop takes a waiter out of the queue.
func (g *gate[K]) drop(w *waiter[K]) {
	l := w.line
	l.wait = slices.DeleteFunc(l.wait, func(other *waiter[K]) bool { return other == w })
	g.waiting--
	g.pressed.Add(-1)
	if len(l.wait) == 0 {
		g.turn = slices.DeleteFunc(g.turn, func(other *line[K]) bool { return other == l })
	}
}

// abandon ends a wait, unless its end has come in the meantime.
func (g *gate[K]) abandon(w *waiter[K], gone bool) lack {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-w.in:
		if !gone {
			return lackNone
		}
		g.free(w.line, w.n)
		g.serve()
		return lackGone
	default:
	}
	why := max(g.lacks(w.line, w.n), lackOwn)
	g.drop(w)
	if gone {
		why = lackGone
	}
	g.serve() // those behind it may have been waiting for it
	return why
}

func (g *gate[K]) why(w *waiter[K]) lack {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lacks(w.line, w.n)
}

// open makes the line of an owner. When there are many, it forgets those of which
// nothing is in and nobody waits.
func (g *gate[K]) open(owner K) *line[K] {
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
