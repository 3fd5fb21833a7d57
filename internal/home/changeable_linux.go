package home

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// changeable reports whether this user can change what is at a path: write it, own it, or put
// something else there or in the place of a folder above it.
func changeable(path string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	if info.Mode()&fs.ModeSymlink == 0 && opens(path, info) {
		return true
	}
	for above := filepath.Dir(path); above != path; path, above = above, filepath.Dir(above) {
		folder, err := os.Lstat(above)
		if err != nil {
			return false
		}
		if opens(above, folder) && (folder.Mode()&fs.ModeSticky == 0 || owns(folder) || owns(info)) {
			return true
		}
		info = folder
	}
	return false
}

// opens reports whether this user can write to a file or folder, or could after a chmod.
func opens(path string, info fs.FileInfo) bool {
	err := unix.Access(path, unix.W_OK)
	return err == nil || err != unix.EROFS && owns(info) //nolint:errorlint // of a system call
}

func owns(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (int(stat.Uid) == os.Getuid() || os.Getuid() == 0)
}
