//go:build !windows

package system

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// use is a set of permission bits of group and others.
type use fs.FileMode

const (
	anyUse  use = 0o077
	writing use = 0o022
	byAll   use = 0o002
)

const (
	addressTaken      = syscall.EADDRINUSE
	noSuchSockets     = syscall.EAFNOSUPPORT
	connectionReset   = syscall.ECONNRESET
	connectionLost    = syscall.ETIMEDOUT
	connectionRefused = syscall.ECONNREFUSED
)

func exposed(_ string, info fs.FileInfo, of use) string {
	if mode := info.Mode().Perm(); mode&fs.FileMode(of) != 0 {
		return fmt.Sprintf("mode %04o", mode)
	}
	return ""
}

func owner(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}

func repair(path string, folder bool) string {
	if folder {
		return "chmod 700 " + Quote(path)
	}
	return "chmod 600 " + Quote(path)
}

func quote(text string) string { return QuotePOSIX(text) }

func private(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return os.Chmod(folder, 0o700)
}

func tryLock(f *os.File) error { return flock(f, syscall.LOCK_EX) }

func tryShare(f *os.File) error { return flock(f, syscall.LOCK_SH) }

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrTaken
		case !errors.Is(err, syscall.EINTR):
			return err
		}
	}
}

func unlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

func syncFolder(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) { // some file systems have no fsync for folders
		err = nil
	}
	return errors.Join(err, d.Close())
}

func openAppend(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
}

func rename(from, to string) error { return os.Rename(from, to) }

func remove(path string) error { return os.Remove(path) }

func noDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// NamesHaveCase says whether PATH and Path are two variables.
const NamesHaveCase = true

func environment(pairs []string) []string { return pairs }

func userDir(getenv func(string) string) string { return getenv("HOME") }

func programs(path string) []string { return []string{path} }

func executable(info fs.FileInfo) bool { return info.Mode().Perm()&0o111 != 0 }
