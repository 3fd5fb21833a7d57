//go:build !linux

package holder

import (
	"errors"
	"os"
	"strconv"
	"syscall"
)

// Process names the running process by its number.
func Process() string { return strconv.Itoa(os.Getpid()) }

// whoHas is "": there is no way to ask.
func whoHas(*os.File) string { return "" }

// Gone reports whether the named process has certainly ended. A number
// that was given out again counts as running: an open intent is then left open.
func Gone(name string) bool {
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
