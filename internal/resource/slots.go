package resource

import "runtime"

// spareSlots is how many goroutines may sit in a system call that sleeps without a
// processor being left idle for it: the one that syncs. With two of them a large stream
// changes its processor more often than it gains.
const spareSlots = 1

// SpareSlots gives Go's scheduler a slot more than there are processors. A goroutine in
// a system call keeps its slot until the scheduler's monitor takes it away, and the
// ledger's sync is such a call nearly all the time under load: with as many slots as
// processors one of two processors waited for the disk too, and 32 connections got a
// tenth less done.
//
// From then on the number does not follow a container's limit any more.
func SpareSlots() { runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spareSlots) }
