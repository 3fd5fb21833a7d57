package system

import "golang.org/x/sys/unix"

// Yield lets other threads of the machine that are ready to run go first, and returns at
// once where there are none (sched_yield(2)). Beside somebody's endless work it takes a
// tick of the kernel, 1 to 4 ms. The goroutine keeps its slot of Go's scheduler meanwhile:
// to give that away too would cost the wake-up of a thread. On systems other than Linux
// it does nothing.
func Yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
