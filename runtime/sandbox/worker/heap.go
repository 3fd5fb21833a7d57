package worker

import (
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// heapEvery is how often the heap is looked at. What grows faster than this meets
// the kernel's limit of memory first, and ends the Go runtime.
const heapEvery = 5 * time.Millisecond

// heap watches the memory of this process from inside, while a script is at work: a
// worker that waits, perhaps for minutes, takes no time.
type heap struct {
	most  atomic.Int64 // bytes
	busy  atomic.Bool
	awake chan struct{} // room for one
	tick  func()        // called at each look
}

// limit sets how many bytes of objects there may be. The collector works harder the
// nearer it comes, so that garbage alone never reaches it.
func (h *heap) limit(most int64) {
	h.most.Store(most)
	debug.SetMemoryLimit(most)
}

// wake and rest say whether something is at work.
func (h *heap) wake() {
	if h.busy.Swap(true) {
		return
	}
	select {
	case h.awake <- struct{}{}:
	default:
	}
}

func (h *heap) rest() { h.busy.Store(false) }

// watch returns when there is more, twice in a row: a collection may be under way.
func (h *heap) watch() int {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for over := 0; over < 2; {
		if !h.busy.Load() {
			<-h.awake
			continue
		}
		time.Sleep(heapEvery)
		h.tick()
		metrics.Read(sample)
		if sample[0].Value.Uint64() > uint64(h.most.Load()) {
			over++
		} else {
			over = 0
		}
	}
	return exitMemory
}
