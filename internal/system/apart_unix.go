//go:build unix

package system

import "syscall"

// Apart are the attributes of a process in a group of its own: what a terminal sends to this
// one does not reach it.
func Apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
