//go:build !windows

package home

import (
	"errors"
	"os"
	"syscall"
)

// TryLock takes the whole file or returns ErrTaken.
func TryLock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrTaken
	}
	return err
}
