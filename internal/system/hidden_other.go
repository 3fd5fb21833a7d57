//go:build !linux && !darwin

package system

import (
	"os"

	"golang.org/x/term"
)

// ReadHidden reads a line from a terminal, without its end, and shows nothing of it. It is
// [io.EOF] where the input ends before.
func ReadHidden(in *os.File) ([]byte, error) { return term.ReadPassword(int(in.Fd())) }
