//go:build !windows

package app

import "syscall"

// descriptorLimit is how many files and sockets this process may open.
func descriptorLimit() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return limit.Cur
}
