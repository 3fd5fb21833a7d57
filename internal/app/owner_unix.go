//go:build !windows

package app

import (
	"io/fs"
	"syscall"
)

// ownerOf is the uid that a file belongs to, -1 when the system does not say.
func ownerOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}
