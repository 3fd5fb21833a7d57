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
