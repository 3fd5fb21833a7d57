package app_test

// approvalsChild is never started: what it is killed for needs signals.
func approvalsChild([]string) int { return 1 }
