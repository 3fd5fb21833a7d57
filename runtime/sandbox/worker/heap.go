package worker

import (
	goruntime "runtime"
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

// watch returns when there is more than the limit. What is garbage does not count, also on a
// machine on which the collector does not come to it for several looks.
func (h *heap) watch() int {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	for over := 0; ; {
		if !h.busy.Load() {
			<-h.awake
			continue
		}
		time.Sleep(heapEvery)
		h.tick()
		metrics.Read(samples)
		var ended bool
		if over, ended = exceeded(over, uint64(h.most.Load()), samples[0].Value.Uint64(), samples[1].Value.Uint64()); ended {
			return exitMemory
		}
		if over > 1 {
			goruntime.GC() // the next look has the count of this one
		}
	}
}

// exceeded is told of a look, after so many in a row at which there was too much: how many
// bytes of objects there are, garbage included, and how many the last collection left. At the
// second look more than half of the limit must have been left: else that is garbage, or no
// collection has seen it.
func exceeded(before int, most, objects, left uint64) (over int, ended bool) {
	if objects <= most {
		return 0, false
	}
	return before + 1, before > 0 && left > most/2
}
