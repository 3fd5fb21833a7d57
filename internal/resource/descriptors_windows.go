package resource

// Descriptors is 0: Windows has no such limit.
func Descriptors() uint64 { return 0 }
