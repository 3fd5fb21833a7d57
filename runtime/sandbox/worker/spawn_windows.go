package worker

import "syscall"

// root is where a worker stands.
const root = `C:\`

// attributes put a worker in a process group of its own, so that what a console
// sends to kimbap does not reach it. It ends with its parent because its pipe does.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}
