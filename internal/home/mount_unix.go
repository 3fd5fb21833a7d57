//go:build !windows

package home

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// readOnly reports whether the file system that path is on is mounted read-only.
func readOnly(path string) bool { return errors.Is(unix.Access(path, unix.W_OK), syscall.EROFS) }
