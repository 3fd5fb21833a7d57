// Package resource is what this process may take of its machine: how the limit of its
// descriptors is shared out ([Share]), when it gives memory back ([Idleness],
// [RelaxCollector], [HurryCollector]), and how many system calls may sleep beside work
// ([SpareSlots]).
//
// It decides nothing about requests, and touches neither arguments nor environment.
// Start reading at [Share].
package resource
