package ledger

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// standing is which file stands at a path and how long it is.
//
// It is asked for before every group, and never together with the file's times:
// since Linux 6.13 a time that somebody asked for is written anew at the next
// change, to the nanosecond, and then fdatasync has the inode to write as well,
// two writes of the disk for each group where one is enough.
type standing struct {
	device, inode uint64
	size          int64
}

// standingOf is that of an open file.
func standingOf(f *os.File) (standing, error) {
	info, err := f.Stat()
	if err != nil {
		return standing{}, err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return standing{}, &fs.PathError{Op: "stat", Path: f.Name(), Err: errors.ErrUnsupported}
	}
	return standing{uint64(s.Dev), s.Ino, s.Size}, nil
}

// standingAt is that of what a path names now.
func standingAt(path string) (standing, error) {
	const asked = unix.STATX_INO | unix.STATX_SIZE
	for {
		var x unix.Statx_t
		err := unix.Statx(unix.AT_FDCWD, path, 0, asked, &x)
		if err == nil && x.Mask&asked == asked {
			return standing{unix.Mkdev(x.Dev_major, x.Dev_minor), x.Ino, int64(x.Size)}, nil
		}
		if err == nil || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // a filter of system calls that does not know it
			var s unix.Stat_t
			if err = unix.Stat(path, &s); err == nil {
				return standing{uint64(s.Dev), s.Ino, s.Size}, nil
			}
		}
		if !errors.Is(err, unix.EINTR) {
			return standing{}, &fs.PathError{Op: "stat", Path: path, Err: err}
		}
	}
}

// same reports whether both are one file.
func (s standing) same(as standing) bool { return s.device == as.device && s.inode == as.inode }
