//go:build !linux

package system

// Yield does nothing; see yield_linux.go.
func Yield() {}
