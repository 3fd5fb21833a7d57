package worker

import "syscall"

// root is where a worker stands.
const root = "/"

// attributes put a worker in a process group of its own, so that what a terminal
// sends to kimbap does not reach it, and end it with the thread that starts it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
