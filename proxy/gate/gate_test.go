package gate

import (
	"context"
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// newTestGate lets in two of each owner and three in all; two of each may wait.
func newTestGate() *Gate[string] { return New(PerOwner(2), 3, 2, 8) }

// patience is longer than any wait here takes.
const patience = 20 * time.Second

// far is a time that no test waits for.
func far() time.Time { return time.Now().Add(2 * patience) }

// joined demands to be let in at once, or, not, to be put into the queue.
func joined(t *testing.T, g *Gate[string], owner string, atOnce bool) *Waiter[string] {
	t.Helper()
	w, why := g.Join(owner, 1)
	if atOnce && (w != nil || why != None) || !atOnce && w == nil {
		t.Fatalf("%s: waits %v, lack %d", owner, w != nil, why)
	}
	return w
}

// entered reports whether a waiter was let in.
func entered[K comparable](w *Waiter[K]) bool {
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
	if w, why := g.Join("greedy", 1); w != nil || why != Own {
		t.Errorf("a full queue took one more: %v %d", w, why)
	}
	joined(t, g, "modest", true)
	g.Leave("greedy", 1)
	if !entered(first) || entered(second) {
		t.Error("not first come, first served")
	}
	g.Leave("greedy", 1)
	if !entered(second) {
		t.Error("the second was forgotten")
	}
}

// Where all are full, owners take turns, however many of one are waiting.
func TestGateIsFairBetweenOwners(t *testing.T) {
	g := New(PerOwner(3), 3, 3, 12)
	for range 3 {
		joined(t, g, "a", true)
	}
	a1, a2 := joined(t, g, "b", false), joined(t, g, "b", false)
	b1 := joined(t, g, "c", false)
	g.Leave("a", 1)
	g.Leave("a", 1)
	if !entered(a1) || !entered(b1) || entered(a2) {
		t.Error("two places went to one owner while another waited")
	}
	g.Leave("a", 1)
	if !entered(a2) {
		t.Error("the last was forgotten")
	}
	if w, why := g.Join("c", 1); w == nil || why != All {
		t.Errorf("lack %d", why)
	}
}

// A large one is not overtaken for ever by small ones.
func TestGateLetsLargeOnesIn(t *testing.T) {
	g := New(PerOwner(10), 10, 5, 20)
	if w, _ := g.Join("small", 6); w != nil {
		t.Fatal("no room")
	}
	large, _ := g.Join("large", 8)
	small, _ := g.Join("late", 2)
	if small == nil {
		t.Fatal("a late one overtook the large one")
	}
	g.Leave("small", 6)
	if !entered(large) || !entered(small) {
		t.Errorf("large %v, small %v", entered(large), entered(small))
	}
	g.Shrink("large", 8, 1)
	if n := g.Of("large"); n != 1 {
		t.Errorf("%d left", n)
	}
	g.Leave("large", 1)
	if over, _ := g.Join("over", 1000); over == nil {
		t.Error("more than there is room for came in beside another")
	} else if g.Leave("late", 2); !entered(over) || g.Of("over") != 10 {
		t.Errorf("more than there is room for has %d", g.Of("over"))
	}
}

// A wait ends with its time or with the client; nothing stays behind, and one
// that was let in at that very moment gives its place on.
func TestGateWaitsEnd(t *testing.T) {
	g := newTestGate()
	joined(t, g, "a", true)
	joined(t, g, "a", true)
	if why := g.Enter(t.Context(), "a", 1, time.Now(), nil); why != Own {
		t.Errorf("out of time: %d", why)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if why := g.Enter(gone, "a", 1, far(), nil); why != Gone {
		t.Errorf("gone: %d", why)
	}
	late := joined(t, g, "a", false)
	g.Leave("a", 1)
	if why := g.abandon(late, false); why != None {
		t.Errorf("let in as its time ended: %d", why)
	}
	late = joined(t, g, "a", false)
	next := joined(t, g, "a", false)
	g.Leave("a", 1)
	if why := g.abandon(late, true); why != Gone || !entered(next) {
		t.Errorf("let in as it went: %d, next %v", why, entered(next))
	}
	g.Leave("a", 1)
	g.Leave("a", 1)
	if g.used.Load() != 0 || g.pressed.Load() != 0 || g.Of("a") != 0 || g.waiting != 0 || len(g.turn) != 0 {
		t.Errorf("left behind: %d used, %d pressed, %d of a, %d waiting, %d in turn", g.used.Load(), g.pressed.Load(), g.Of("a"), g.waiting, len(g.turn))
	}
}

// Who waits may make room.
func TestGateAsksForRoom(t *testing.T) {
	g := newTestGate()
	joined(t, g, "a", true)
	joined(t, g, "a", true)
	asked := 0
	if why := g.Enter(t.Context(), "a", 1, far(), func(why Lack) {
		if asked++; asked == 2 && why == Own {
			g.Leave("a", 1)
		}
	}); why != None || asked != 2 {
		t.Errorf("lack %d after %d questions", why, asked)
	}
}

// However many come and go at the same time, with room, without and by giving up:
// there are never more in than the limits say, everybody who waits is let in or
// gives up, and at the end nothing is left.
func TestGateIsExactUnderPressure(t *testing.T) {
	const most, all, runners, rounds = 3, 5, 12, 3000
	g := New(PerOwner(most), all, runners, 4*runners)
	var in [4]atomic.Int64 // of the owners, and of all
	var busy sync.WaitGroup
	for i := range runners {
		busy.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for range rounds {
				who, n := i%3, int64(1+random.IntN(2))
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(8) == 0 {
					cancel()
				}
				if why := g.Enter(ctx, strconv.Itoa(who), n, far(), nil); why == None {
					if in[who].Add(n) > most || in[3].Add(n) > all {
						t.Error("more are in than may be")
					}
					goruntime.Gosched()
					in[who].Add(-n)
					in[3].Add(-n)
					g.Shrink(strconv.Itoa(who), n, n-1)
					g.Leave(strconv.Itoa(who), n-1)
				} else if why != Gone {
					t.Errorf("lack %d", why)
				}
				cancel()
			}
		})
	}
	busy.Wait()
	if g.used.Load() != 0 || g.pressed.Load() != 0 || g.waiting != 0 || len(g.turn) != 0 || g.short {
		t.Errorf("left behind: %d used, %d pressed, %d waiting", g.used.Load(), g.pressed.Load(), g.waiting)
	}
}

// Owners that come, go and come again are counted under one line each, and
// those that are gone are forgotten.
func TestGateForgetsOwnersThatAreGone(t *testing.T) {
	g := New(PerOwner(1), 1<<20, 1, 4)
	joined(t, g, "stays", true)
	var busy sync.WaitGroup
	for i := range 4 {
		busy.Go(func() {
			var in [8]atomic.Int64
			for round := range 40_000 {
				owner := fmt.Sprint(i, "/", round/20%1000)
				if w, _ := g.Join(owner, 1); w != nil || in[round%8].Add(1) > 1 {
					t.Errorf("%s: alone, and there is no room", owner)
				}
				in[round%8].Add(-1)
				g.Leave(owner, 1)
			}
		})
	}
	busy.Wait()
	if n := len(*g.lines.Load()); n > 4*idleLines {
		t.Errorf("%d owners are remembered", n)
	}
	if w, _ := g.Join("stays", 1); w == nil || g.used.Load() != 1 {
		t.Errorf("the one who stayed was forgotten: %d in", g.used.Load())
	}
}

// What every request passes costs it no allocation.
func TestGateIsCheap(t *testing.T) {
	g := newTestGate()
	if n := testing.AllocsPerRun(1000, func() {
		g.Join("local/1", 1)
		g.Leave("local/1", 1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGate(b *testing.B) {
	g := New(PerOwner(1024), 8192, 256, 1024)
	for b.Loop() {
		g.Join("default/local:1000", 1)
		g.Leave("default/local:1000", 1)
	}
}

// As many goroutines as processors, all of one owner: one agent with many
// connections.
func BenchmarkGateTogether(b *testing.B) {
	g := New(PerOwner(1024), 8192, 256, 1024)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			g.Join("default/local:1000", 1)
			g.Leave("default/local:1000", 1)
		}
	})
}
