package proxy

import (
	"context"
	"testing"
	"time"
)

// newTestGate lets in two of each owner and three in all; two of each may wait.
func newTestGate() *gate[string] { return newGate(perOwner(2), 3, 2, 8) }

// far is a time that no test waits for.
func far() time.Time { return time.Now().Add(2 * patience) }

// joined demands to be let in at once, or, not, to be put into the queue.
func joined(t *testing.T, g *gate[string], owner string, atOnce bool) *waiter[string] {
	t.Helper()
	w, why := g.join(owner, 1)
	if atOnce && (w != nil || why != lackNone) || !atOnce && w == nil {
		t.Fatalf("%s: waits %v, lack %d", owner, w != nil, why)
	}
	return w
}

// entered reports whether a waiter was let in.
func entered[K comparable](w *waiter[K]) bool {
	select {
	case <-w.in:
		return true
	default:
		return false
	}
}

// One owner's crowd waits for its own limit and keeps nobody out.
func TestGateKeepsRoomForOthers(t *testing.T) {
	g := newTestGate()
	joined(t, g, "greedy", true)
	joined(t, g, "greedy", true)
	first, second := joined(t, g, "greedy", false), joined(t, g, "greedy", false)
	if w, why := g.join("greedy", 1); w != nil || why != lackOwn {
		t.Errorf("a full queue took one more: %v %d", w, why)
	}
	joined(t, g, "modest", true)
	g.leave("greedy", 1)
	if !entered(first) || entered(second) {
		t.Error("not first come, first served")
	}
	g.leave("greedy", 1)
	if !entered(second) {
		t.Error("the second was forgotten")
	}
}

// Where all are full, owners take turns, however many of one are waiting.
func TestGateIsFairBetweenOwners(t *testing.T) {
	g := newGate(perOwner(3), 3, 3, 12)
	for range 3 {
		joined(t, g, "a", true)
	}
	a1, a2 := joined(t, g, "b", false), joined(t, g, "b", false)
	b1 := joined(t, g, "c", false)
	g.leave("a", 1)
	g.leave("a", 1)
	if !entered(a1) || !entered(b1) || entered(a2) {
		t.Error("two places went to one owner while another waited")
	}
	g.leave("a", 1)
	if !entered(a2) {
		t.Error("the last was forgotten")
	}
	if w, why := g.join("c", 1); w == nil || why != lackAll {
		t.Errorf("lack %d", why)
	}
}

// A large one is not overtaken for ever by small ones.
func TestGateLetsLargeOnesIn(t *testing.T) {
	g := newGate(perOwner(10), 10, 5, 20)
	if w, _ := g.join("small", 6); w != nil {
		t.Fatal("no room")
	}
	large, _ := g.join("large", 8)
	small, _ := g.join("late", 2)
	if small == nil {
		t.Fatal("a late one overtook the large one")
	}
	g.leave("small", 6)
	if !entered(large) || !entered(small) {
		t.Errorf("large %v, small %v", entered(large), entered(small))
	}
	g.shrink("large", 8, 1)
	if n := g.has("large"); n != 1 {
		t.Errorf("%d left", n)
	}
	g.leave("large", 1)
	if over, _ := g.join("over", 1000); over == nil {
		t.Error("more than there is room for came in beside another")
	} else if g.leave("late", 2); !entered(over) || g.has("over") != 10 {
		t.Errorf("more than there is room for has %d", g.has("over"))
	}
}

// A wait ends with its time or with the client; nothing stays behind, and one
// that was let in at that very moment gives its place on.
func TestGateWaitsEnd(t *testing.T) {
	g := newTestGate()
	joined(t, g, "a", true)
	joined(t, g, "a", true)
	if why := g.enter(t.Context(), "a", 1, time.Now(), nil); why != lackOwn {
		t.Errorf("out of time: %d", why)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if why := g.enter(gone, "a", 1, far(), nil); why != lackGone {
		t.Errorf("gone: %d", why)
	}
	late := joined(t, g, "a", false)
	g.leave("a", 1)
	if why := g.abandon(late, false); why != lackNone {
		t.Errorf("let in as its time ended: %d", why)
	}
	late = joined(t, g, "a", false)
	next := joined(t, g, "a", false)
	g.leave("a", 1)
	if why := g.abandon(late, true); why != lackGone || !entered(next) {
		t.Errorf("let in as it went: %d, next %v", why, entered(next))
	}
	g.leave("a", 1)
	g.leave("a", 1)
	if g.used != 0 || g.waiting != 0 || len(g.lines) != 0 || len(g.turn) != 0 {
		t.Errorf("left behind: %+v", g)
	}
}

// Who waits may make room.
func TestGateAsksForRoom(t *testing.T) {
	g := newTestGate()
	joined(t, g, "a", true)
	joined(t, g, "a", true)
	asked := 0
	if why := g.enter(t.Context(), "a", 1, far(), func(why lack) {
		if asked++; asked == 2 && why == lackOwn {
			g.leave("a", 1)
		}
	}); why != lackNone || asked != 2 {
		t.Errorf("lack %d after %d questions", why, asked)
	}
}

// What every request passes costs it no allocation.
func TestGateIsCheap(t *testing.T) {
	g := newTestGate()
	if n := testing.AllocsPerRun(1000, func() {
		g.join("local/1", 1)
		g.leave("local/1", 1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGate(b *testing.B) {
	g := newGate(perOwner(1024), 8192, 256, 1024)
	for b.Loop() {
		g.join("default/local:1000", 1)
		g.leave("default/local:1000", 1)
	}
}
