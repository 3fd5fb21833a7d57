package resource

import (
	"runtime/debug"
	"runtime/metrics"
)

// A proxy that was busy keeps the memory it worked in: the collector runs when
// the heap grows, and an idle heap does not. So a process that has been quiet
// for idleLooks looks of the watch, after it had allocated idleWorth bytes or
// more, collects once and gives the memory back. Of its own start, firstLooks.
const (
	firstLooks = 4
	idleLooks  = 12       // three seconds
	idleQuiet  = 1 << 20  // bytes allocated between two looks that still are no work
	idleWorth  = 16 << 20 // bytes
)

// Idleness is what is known of the allocations so far.
type Idleness struct {
	total uint64 // at the last look
	given uint64 // when memory was last given back
	looks int    // quiet ones
}

// due takes the bytes that were ever allocated and reports whether it is time.
func (i *Idleness) due(allocated uint64) bool {
	quiet := allocated-i.total < idleQuiet
	i.total = allocated
	if !quiet {
		i.looks = 0
		return false
	}
	i.looks++
	if i.given == 0 && i.looks == firstLooks {
		i.given = allocated
		return true
	}
	if i.looks != idleLooks || allocated-i.given < idleWorth {
		return false
	}
	i.given = allocated
	return true
}

// Rest gives memory back when it is due.
func (i *Idleness) Rest() {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() == metrics.KindUint64 && i.due(sample[0].Value.Uint64()) {
		debug.FreeOSMemory()
		forgetText()
	}
}

// RelaxCollector is for a process that is nothing but a proxy. It lets the heap
// grow to five times what lives in it before it is collected: a proxy's live
// heap is a few MiB, and its garbage is most of its work. With thousands of
// tunnels that would be too much: from relaxedHeap on it is collected as needed.
func RelaxCollector() {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(relaxedHeap)
}

// relaxedHeap, in bytes, is what the Go part of the process may take before the
// collector works harder.
const relaxedHeap = 400 << 20

// HurryCollector is for a command that lives for a moment: what its start and its
// work leave behind is not worth a collection, which takes a third of the time in
// which a whole catalogue is read. What lives on calls [RelaxCollector].
func HurryCollector() {
	debug.SetGCPercent(hurriedPercent)
	debug.SetMemoryLimit(hurriedHeap)
}

// A first collection at 40 MiB, and harder work from hurriedHeap bytes on.
const (
	hurriedPercent = 1000
	hurriedHeap    = 256 << 20
)
