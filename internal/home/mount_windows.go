package home

// readOnly reports whether the file system that path is on is mounted read-only.
func readOnly(string) bool { return false }
