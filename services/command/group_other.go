//go:build !unix

package command

import "os/exec"

// apart changes nothing here: there are no process groups, so that a timeout ends
// the program alone.
func apart(*exec.Cmd) {}

func killGroup(*exec.Cmd) {}
