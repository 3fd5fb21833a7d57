//go:build !windows

package app

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes the whole file or returns errTaken.
func lockFile(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errTaken
	}
	return err
}
