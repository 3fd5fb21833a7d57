// Package resource is what this process may take of its machine: how the limit of its
// descriptors is shared out ([Share]), and when it gives memory back ([Idleness],
// [RelaxCollector], [HurryCollector]).
//
// It decides nothing about requests, and touches neither arguments nor environment.
// Start reading at [Share].
package resource
