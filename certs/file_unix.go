//go:build unix

package certs

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// checkPrivate refuses a file or folder that another user owns or can open.
func checkPrivate(path, wanted string) error {
	info, err := os.Stat(path)
	if err != nil {
		return &FileError{File: path, Msg: "cannot be examined", Err: err}
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return &FileError{
			File: path, Msg: fmt.Sprintf("it belongs to another user (uid %d)", stat.Uid),
			Fix: fmt.Sprintf("chown %d %s", os.Geteuid(), path),
		}
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return &FileError{
			File: path, Msg: fmt.Sprintf("other users can open it (mode %04o)", mode),
			Fix: fmt.Sprintf("chmod %s %s", wanted, path),
		}
	}
	return nil
}

// syncDir makes a new name durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) { // some file systems have no fsync for folders
		return err
	}
	return nil
}

// lock takes the whole file or returns errLocked (flock(2)). Closing it gives
// the lock up.
func lock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errLocked
		case !errors.Is(err, syscall.EINTR):
			return err
		}
	}
}
