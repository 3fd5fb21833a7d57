package main

import "golang.org/x/sys/unix"

// Calls that only this architecture has, and the other way to number them.
func init() {
	forbidden["open"] = attempt{unix.SYS_OPEN, [6]uintptr{passwd, unix.O_RDONLY}}
	forbidden["real fork"] = attempt{unix.SYS_FORK, [6]uintptr{}}
	forbidden["real vfork"] = attempt{unix.SYS_VFORK, [6]uintptr{}}
	forbidden["creat"] = attempt{unix.SYS_CREAT, [6]uintptr{script, 0o600}}
	forbidden["arch_prctl"] = attempt{unix.SYS_ARCH_PRCTL, [6]uintptr{0x1002, memory}}
	forbidden["x32 write"] = attempt{0x40000000 | unix.SYS_WRITE, [6]uintptr{1, memory, 1}}
	forbidden["x32 openat"] = attempt{0x40000000 | unix.SYS_OPENAT, [6]uintptr{here, passwd}}
}
