//go:build !windows

package home

import (
	"errors"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownerOf is the uid that a file belongs to, -1 when the system does not say.
func ownerOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}

// readOnly reports whether the file system that path is on is mounted read-only.
func readOnly(path string) bool { return errors.Is(unix.Access(path, unix.W_OK), syscall.EROFS) }
