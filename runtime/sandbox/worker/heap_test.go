package worker

import (
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
	h := heap{awake: make(chan struct{}, 1)}
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
