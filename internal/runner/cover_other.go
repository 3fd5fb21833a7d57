//go:build !linux

package runner

import "os/exec"

// covered cannot: there are no mount namespaces here.
func covered(Options, func() *exec.Cmd) (int, error) {
	return 0, &cannotCover{"this system has no mount namespaces", true}
}

// Covered exists on Linux only.
func Covered(Covering) (int, error) {
	return 0, &cannotCover{"this system has no mount namespaces", true}
}
