package worker

import (
	"io"
	"runtime/debug"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// The limit is below what any test binary has, so that the watch ends as soon as
// it looks.
func TestTheHeapIsWatchedOnlyWhileSomethingIsAtWork(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	h := heap{awake: make(chan struct{}, 1), tick: func() {}}
	h.most.Store(1)
	ended := make(chan int)
	go func() { ended <- h.watch() }()
	h.rest()
	select {
	case <-ended:
		t.Fatal("it looked while nothing was at work")
	case <-time.After(20 * heapEvery):
	}
	h.wake()
	h.wake()
	if code := <-ended; code != exitMemory {
		t.Errorf("status %d", code)
	}
}

// Garbage is not taken for memory before a collection had the time to take it away, however
// long that lasts.
func TestGarbageThatWaitsForTheCollectorIsNoMemory(t *testing.T) {
	const most = 100
	type look struct{ objects, left uint64 }
	for name, c := range map[string]struct {
		looks []look
		ended int // the look at which it ends, from 1; 0: it does not
	}{
		"a moment above":                {[]look{{101, 90}, {99, 90}, {101, 90}, {100, 90}}, 0},
		"much was left":                 {[]look{{101, 51}, {101, 51}}, 2},
		"little was left":               {[]look{{900, 50}, {900, 50}, {900, 50}, {900, 50}}, 0},
		"a collection did not help":     {[]look{{101, 0}, {101, 0}, {101, 99}}, 3},
		"a collection was still coming": {[]look{{101, 50}, {101, 50}, {99, 1}, {101, 51}}, 0},
	} {
		over, ended := 0, 0
		for i, l := range c.looks {
			now, ends := exceeded(over, most, l.objects, l.left)
			if over = now; ends && ended == 0 {
				ended = i + 1
			}
		}
		if ended != c.ended {
			t.Errorf("%s: it ended at look %d, want %d", name, ended, c.ended)
		}
	}
}

// Whatever comes between the look and the rest, a message that is there keeps the
// watch awake.
func TestAMessageThatIsThereKeepsTheWatchAwake(t *testing.T) {
	c := child{replies: make(chan frame.Reply, 1), heap: heap{awake: make(chan struct{}, 1)}}
	c.rest()
	if c.heap.busy.Load() {
		t.Error("nothing came, and it is awake")
	}
	c.replies <- frame.Reply{}
	c.rest()
	if !c.heap.busy.Load() {
		t.Error("it sleeps over a reply")
	}
}

// A host that does not read keeps the watch of the heap from nothing; once it reads, what
// was held comes.
func TestTheWatchDoesNotWaitForAHostThatDoesNotRead(t *testing.T) {
	in, out := io.Pipe() // a write waits for its reader
	c := &child{out: out, ended: make(chan int, 3)}
	c.hold(&frame.ToHost{Call: &frame.Call{Seq: 1, Path: "demo.note"}})
	nudged := make(chan struct{})
	go func() {
		defer close(nudged)
		for range 3 {
			c.nudge()
		}
	}()
	select {
	case <-nudged:
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for the host")
	}
	got, err := frame.Read[frame.ToHost](in)
	if err != nil || got.Call == nil || got.Call.Seq != 1 {
		t.Errorf("%+v %v", got, err)
	}
}
