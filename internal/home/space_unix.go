//go:build !windows

package home

import "syscall"

// Space returns what is free on the disk of a folder, and its size, in bytes.
func Space(dir string) (free, size uint64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	return uint64(s.Bavail) * uint64(s.Bsize), uint64(s.Blocks) * uint64(s.Bsize), nil
}

// Names returns how many more files the disk of a folder takes, whatever room it has; false where
// that is not limited, or not known.
func Names(dir string) (left uint64, limited bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil || s.Files == 0 {
		return 0, false
	}
	return uint64(s.Ffree), true
}
