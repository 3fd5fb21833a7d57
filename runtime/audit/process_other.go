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
	if err != nil {
		return false
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return true // Windows: there is no such process
	}
	return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}
