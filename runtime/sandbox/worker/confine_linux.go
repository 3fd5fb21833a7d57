package worker

import (
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// maxFiles is how many descriptors a worker may have: three pipes, the Go poller's
// two, one that the Go runtime may hold on its cgroup, and none to spare for much.
const maxFiles = 16

// fit refuses a program that could not work as a worker.
func fit() error {
	if withCgo {
		return errors.New("this kimbap was built with cgo, and its threads need more than a worker may have: build it with CGO_ENABLED=0")
	}
	return nil
}

// reserved is how much address space a worker may have beside its memory, in bytes.
// The Go runtime reserves about a gigabyte and uses none of it. Memory that can only
// be read does not count as data, but its page tables are there.
const reserved = 4 << 30

// confineSystem gives up files, limits, privileges and nearly all system calls, in
// this order: each step needs calls that the last one forbids.
func confineSystem(s Settings) (frame.Level, error) {
	_ = os.WriteFile("/proc/self/comm", []byte("kimbap"), 0) // for who looks: else it has the last part of the path that it was started by
	if err := closeInherited(); err != nil {
		return "", fmt.Errorf("close inherited files: %w", err)
	}
	if err := setLimits(s); err != nil {
		return "", err
	}
	goruntime.LockOSThread() // both belong to a thread, and the filter takes its to all others
	defer goruntime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return "", fmt.Errorf("set not dumpable: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return "", fmt.Errorf("set no new privileges: %w", err)
	}
	if !filterKnown {
		return frame.LevelProcess, nil
	}
	if err := installFilter(filter(unix.Getpid())); err != nil {
		return "", fmt.Errorf("install the system call filter: %w", err)
	}
	return frame.LevelSeccomp, nil
}

// closeInherited closes every descriptor that somebody before our parent left open
// for all programs. Ours and the Go runtime's own are marked close-on-exec; what is
// not has come through the exec.
func closeInherited() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue // gone: it was this listing
		}
		if err := unix.Close(fd); err != nil {
			return err
		}
	}
	return nil
}

// setLimits lowers what the kernel gives this process. Soft and hard are one: at
// the limit of processor time the kernel kills, it does not ask.
func setLimits(s Settings) error {
	for _, l := range []struct {
		name  string
		which int
		most  uint64
	}{
		{"core files", unix.RLIMIT_CORE, 0},
		{"file sizes", unix.RLIMIT_FSIZE, 0},
		{"locked memory", unix.RLIMIT_MEMLOCK, 0},
		{"message queues", unix.RLIMIT_MSGQUEUE, 0},
		{"open files", unix.RLIMIT_NOFILE, maxFiles},
		{"memory", unix.RLIMIT_DATA, s.data()},
		{"addresses", unix.RLIMIT_AS, s.data() + reserved},
		{"processor time", unix.RLIMIT_CPU, s.cpuSeconds()},
	} {
		var now unix.Rlimit
		if err := unix.Getrlimit(l.which, &now); err != nil {
			return fmt.Errorf("limit %s: %w", l.name, err)
		}
		most := min(l.most, now.Max)
		if err := unix.Setrlimit(l.which, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limit %s: %w", l.name, err)
		}
	}
	return nil
}

// installFilter puts a filter on every thread of this process, now and later.
func installFilter(program []unix.SockFilter) error {
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP,
		unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&p)))
	goruntime.KeepAlive(program)
	if errno != 0 {
		return errno
	}
	if thread != 0 {
		return fmt.Errorf("thread %d would not take it", thread)
	}
	return nil
}
