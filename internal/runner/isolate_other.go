//go:build !linux

package runner

func isRoot() bool { return false }
