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

// heap watches the memory of this process from inside.
type heap struct{ most atomic.Int64 } // bytes

// limit sets how many bytes of objects there may be. The collector works harder the
// nearer it comes, so that garbage alone never reaches it.
func (h *heap) limit(most int64) {
	h.most.Store(most)
	debug.SetMemoryLimit(most)
}

// watch returns when there is more, twice in a row: a collection may be under way.
func (h *heap) watch() int {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	over := 0
	for tick := range time.Tick(heapEvery) {
		_ = tick
		metrics.Read(sample)
		if sample[0].Value.Uint64() <= uint64(h.most.Load()) {
			over = 0
			continue
		}
		if over++; over == 2 {
			return exitMemory
		}
	}
	return exitMemory // no clock, no watch
}
