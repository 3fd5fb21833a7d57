package app

// descriptorLimit is 0: Windows has no such limit.
func descriptorLimit() uint64 { return 0 }
