package worker

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// What the filter answers. A call that is not on the list ends the whole process,
// at once and without a handler: neither our code nor the Go runtime makes one, so
// whoever does has taken the process over and must not get a second try, nor an
// error to learn from. An errno would also let a mistake of ours pass unseen. Two
// calls are refused with one instead: harmless questions of code that we link.
const (
	allow  = unix.SECCOMP_RET_ALLOW
	kill   = unix.SECCOMP_RET_KILL_PROCESS
	refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)
)

// rule says what becomes of one system call.
type rule struct {
	number uintptr
	answer uint32  // when all checks hold, else the process is killed
	checks []check // none: whatever its arguments
}

// check is a condition on the low 32 bits of one argument. The kernel reads no more
// than those of the arguments that are checked.
type check struct {
	argument int
	jump     uint16 // BPF_JEQ, BPF_JSET, BPF_JGE
	value    uint32
	want     bool // the outcome of the jump
}

// Values of arguments.
const (
	futexPrivate  = 128 // | FUTEX_WAIT 0 or FUTEX_WAKE 1: no other operation is used
	firstPoisoned = 100 // MADV_HWPOISON: from here on advice breaks the machine's pages
)

// rules is the list: what the Go runtime needs to run threads, timers, signals to
// itself and its collector, and to read and write open pipes. The frequent ones
// come first. Nothing here opens, connects, starts, names or signals anything
// outside this process, and no memory becomes code.
func rules(pid int) []rule {
	return []rule{
		{number: unix.SYS_FUTEX, answer: allow, checks: []check{{1, unix.BPF_JGE, futexPrivate, true}, {1, unix.BPF_JGE, futexPrivate + 2, false}}},
		{number: unix.SYS_READ, answer: allow},
		{number: unix.SYS_WRITE, answer: allow},
		{number: unix.SYS_EPOLL_PWAIT, answer: allow},
		{number: unix.SYS_NANOSLEEP, answer: allow},
		{number: unix.SYS_MADVISE, answer: allow, checks: []check{{2, unix.BPF_JGE, firstPoisoned, false}}},
		{number: unix.SYS_MMAP, answer: allow, checks: []check{
			{2, unix.BPF_JSET, unix.PROT_EXEC, false},
			{3, unix.BPF_JSET, unix.MAP_ANONYMOUS, true},
			{3, unix.BPF_JSET, unix.MAP_SHARED, false}, // shared memory does not count as data
		}},
		{number: unix.SYS_MUNMAP, answer: allow},
		{number: unix.SYS_TGKILL, answer: allow, checks: []check{{0, unix.BPF_JEQ, uint32(pid), true}}}, // to preempt a goroutine
		{number: unix.SYS_RT_SIGRETURN, answer: allow},
		{number: unix.SYS_RT_SIGPROCMASK, answer: allow},
		{number: unix.SYS_RT_SIGACTION, answer: allow},
		{number: unix.SYS_SIGALTSTACK, answer: allow},
		{number: unix.SYS_SCHED_YIELD, answer: allow},
		{number: unix.SYS_GETPID, answer: allow},
		{number: unix.SYS_GETTID, answer: allow},
		{number: unix.SYS_CLOCK_GETTIME, answer: allow}, // where the kernel has no fast way
		{number: unix.SYS_GETRANDOM, answer: allow},
		{number: unix.SYS_RESTART_SYSCALL, answer: allow}, // the kernel's own, after a stop
		{number: unix.SYS_CLONE, answer: allow, checks: []check{{0, unix.BPF_JEQ, threadFlags, true}}},
		{number: unix.SYS_EXIT, answer: allow},
		{number: unix.SYS_EXIT_GROUP, answer: allow},
		// The Go runtime tries to name its memory, and does not mind.
		{number: unix.SYS_PRCTL, answer: refuse},
		// esbuild asks whether its standard error is a terminal. It is a pipe.
		{number: unix.SYS_IOCTL, answer: refuse, checks: []check{{1, unix.BPF_JEQ, unix.TCGETS, true}}},
	}
}

// filter is the list as a program for the kernel, see seccomp(2).
func filter(pid int) []unix.SockFilter {
	var data seccompData
	out := []unix.SockFilter{
		load(unsafe.Offsetof(data.arch)),
		jump(unix.BPF_JEQ, filterArch, 1, 0), // else a number means another call
		answer(kill),
		load(unsafe.Offsetof(data.number)),
	}
	for _, r := range rules(pid) {
		body := r.body()
		out = append(out, jump(unix.BPF_JEQ, uint32(r.number), 0, uint8(len(body))))
		out = append(out, body...)
	}
	return append(out, answer(kill))
}

// body decides on a call whose number has matched; it always ends the program.
func (r rule) body() []unix.SockFilter {
	var out []unix.SockFilter
	for i, c := range r.checks {
		wrong := uint8(2*(len(r.checks)-1-i) + 1) // to the last line
		j := jump(c.jump, c.value, wrong, 0)
		if c.want {
			j = jump(c.jump, c.value, 0, wrong)
		}
		out = append(out, load(argumentOffset(c.argument)), j)
	}
	out = append(out, answer(r.answer))
	if len(r.checks) > 0 {
		out = append(out, answer(kill))
	}
	return out
}

// seccompData is what a filter sees of a call: struct seccomp_data of linux/seccomp.h.
type seccompData struct {
	number    int32
	arch      uint32
	_         uint64 // the address of the instruction
	arguments [6]uint64
}

// argumentOffset is where the low half of an argument is: both architectures with
// a list are little-endian.
func argumentOffset(n int) uintptr {
	var data seccompData
	return unsafe.Offsetof(data.arguments) + uintptr(n)*unsafe.Sizeof(data.arguments[0])
}

func load(offset uintptr) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: uint32(offset)}
}

func jump(how uint16, value uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, Jt: yes, Jf: no, K: value}
}

func answer(a uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: a}
}
