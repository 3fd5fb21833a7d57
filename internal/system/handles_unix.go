//go:build !windows

package system

import (
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

func notInherited(file fs.FileInfo) bool {
	want, ok := file.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	kept := true
	for _, fd := range openFiles() {
		var have syscall.Stat_t
		switch {
		case syscall.Fstat(fd, &have) != nil || have.Dev != want.Dev || have.Ino != want.Ino:
		case fd <= 2:
			kept = false
		default:
			syscall.CloseOnExec(fd)
		}
	}
	return kept
}

// openFiles are the numbers of what this process has open. Where the system has no list of
// them, nothing was opened by its number either.
func openFiles() []int {
	folder, err := os.Open("/dev/fd")
	if err != nil {
		return []int{0, 1, 2}
	}
	defer func() { _ = folder.Close() }()
	names, _ := folder.Readdirnames(-1)
	var out []int
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil {
			out = append(out, fd)
		}
	}
	return out
}
