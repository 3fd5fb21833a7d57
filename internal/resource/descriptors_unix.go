//go:build !windows

package resource

import "syscall"

// Descriptors is how many files and sockets this process may open.
func Descriptors() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return limit.Cur
}
