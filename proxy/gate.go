package proxy

import (
	"context"
	"slices"
	"sync"
	"time"
)

// gate lets so much in at a time: of one owner, and in all. What finds no room
// waits, in a queue that is bounded too: of one owner first come first served,
// between owners in turn, so that nobody's crowd is in the way of another's one.
//
// With room, join and leave are one lock and no allocation.
type gate[K comparable] struct {
	each  func(K) int64 // what one owner may have in
	all   int64
	queue int // how many of one owner may wait
	crowd int // in all

	mu      sync.Mutex
	used    int64
	waiting int
	short   bool // the next in turn waits for room in all: nobody overtakes it
	lines   map[K]*line[K]
	turn    []*line[K] // the owners of which somebody waits, the next one first
	spare   *line[K]
}

// line is one owner's part.
type line[K comparable] struct {
	owner K
	used  int64
	wait  []*waiter[K]
}

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
	return &gate[K]{each: each, all: all, queue: queue, crowd: crowd, lines: map[K]*line[K]{}}
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
	n = min(n, g.all, g.each(owner))
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lines[owner]
	if l == nil {
		l = g.open(owner)
	}
	if why = g.lacks(l, n); why == lackNone && len(l.wait) == 0 && !g.short {
		l.used += n
		g.used += n
		return nil, lackNone
	}
	if len(l.wait) >= g.queue || g.waiting >= g.crowd {
		g.tidy(l)
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

// await waits for the waiter's turn.
func (g *gate[K]) await(ctx context.Context, w *waiter[K], until time.Time, room func(lack)) lack {
	end := time.NewTimer(time.Until(until))
	defer end.Stop()
	again := time.NewTicker(tryAgain)
	defer again.Stop()
	for {
		if room != nil {
			room(g.why(w))
		}
		select {
		case <-w.in:
			return lackNone
		case <-again.C:
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
	most := min(g.all, g.each(owner))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free(g.lines[owner], min(from, most)-min(to, most))
}

func (g *gate[K]) free(l *line[K], n int64) {
	l.used -= n
	g.used -= n
	if len(g.turn) > 0 {
		g.serve()
	}
	g.tidy(l)
}

// serve lets in who waits, in turn, as far as there is room.
func (g *gate[K]) serve() {
	g.short = false
	for i := 0; i < len(g.turn); {
		l := g.turn[i]
		w := l.wait[0]
		switch g.lacks(l, w.n) {
		case lackOwn:
			i++
			continue
		case lackAll:
			g.short = true
			return
		}
		l.used += w.n
		g.used += w.n
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
	case l.used+n > g.each(l.owner):
		return lackOwn
	case g.used+n > g.all:
		return lackAll
	}
	return lackNone
}

// drop takes a waiter out of the queue.
func (g *gate[K]) drop(w *waiter[K]) {
	l := w.line
	l.wait = slices.DeleteFunc(l.wait, func(other *waiter[K]) bool { return other == w })
	g.waiting--
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
		return lackGone
	default:
	}
	why := max(g.lacks(w.line, w.n), lackOwn)
	g.drop(w)
	if gone {
		why = lackGone
	}
	g.serve() // those behind it may have been waiting for it
	g.tidy(w.line)
	return why
}

func (g *gate[K]) why(w *waiter[K]) lack {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lacks(w.line, w.n)
}

// open makes the line of an owner; tidy forgets one that nothing is in.
func (g *gate[K]) open(owner K) *line[K] {
	l := g.spare
	if g.spare = nil; l == nil {
		l = &line[K]{}
	}
	l.owner = owner
	g.lines[owner] = l
	return l
}

func (g *gate[K]) tidy(l *line[K]) {
	if l.used == 0 && len(l.wait) == 0 && g.lines[l.owner] == l {
		delete(g.lines, l.owner)
		g.spare = l
	}
}

// has is how much of owner is in.
func (g *gate[K]) has(owner K) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.lines[owner]; l != nil {
		return l.used
	}
	return 0
}
