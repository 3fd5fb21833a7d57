//go:build unix

package worker

import (
	"os"
	goruntime "runtime"
	"syscall"
)

// fromSystem adds what only this kind of system tells.
func (x *exit) fromSystem(s *os.ProcessState) {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		x.killed = status.Signal() == syscall.SIGKILL
		x.overCPU = status.Signal() == syscall.SIGXCPU
		x.forbidden = status.Signal() == syscall.SIGSYS
	}
	if usage, ok := s.SysUsage().(*syscall.Rusage); ok {
		x.peak = int64(usage.Maxrss)
		if goruntime.GOOS != "darwin" {
			x.peak <<= 10 // KiB there
		}
	}
}
