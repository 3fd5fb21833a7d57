package audit_test

// child is never started: what it is killed for needs signals.
func child(string) int { return 1 }
