//go:build !windows

package main

import (
	"io/fs"
	"os"
	"syscall"
)

// ownFile reports whether a file is this user's.
func ownFile(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
