//go:build !linux

package audit

import (
	"errors"
	"os"
	"strconv"
	"syscall"
)

// processName names the running process by its number.
func processName() string { return strconv.Itoa(os.Getpid()) }

// processGone reports whether the named process has certainly ended. A number
// that was given out again counts as running: an open intent is then left open.
func processGone(name string) bool {
	pid, err := strconv.Atoi(name)
	return err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
