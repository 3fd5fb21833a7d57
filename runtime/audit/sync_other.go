//go:build !linux

package audit

import "os"

// syncData makes the bytes of a file durable.
func syncData(f *os.File) error { return f.Sync() }
