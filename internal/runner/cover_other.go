//go:build !linux

package runner

import (
	"io"
	"os/exec"
)

// covered cannot: there are no mount namespaces here.
func covered(Options, func() *exec.Cmd) (int, error) {
	return 0, &cannotCover{"this system has no mount namespaces"}
}

// Covered exists on Linux only.
func Covered([]string, []string, int, int, io.Reader, io.Writer, io.Writer, []string) (int, error) {
	return 0, &cannotCover{"this system has no mount namespaces"}
}
