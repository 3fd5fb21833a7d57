package system

import "syscall"

// Apart are the attributes of a process in a group of its own: what a console sends to this
// one does not reach it.
func Apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}
