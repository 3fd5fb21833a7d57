package netns

import (
	"fmt"
	goruntime "runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// abi are the numbers of the system calls that the filter looks at, for one way
// of calling the kernel (asm/unistd.h). Zero: there is no such call.
type abi struct {
	arch       uint32 // AUDIT_ARCH_*
	socket     uint32
	ioctl      uint32
	socketcall uint32 // of old 32-bit programs: its arguments cannot be looked at
	prlimit    uint32
}

// ioUringSetup has one number everywhere. A ring opens sockets past the filter.
const ioUringSetup = 425

// otherABI is a bit in the numbers of calls by the x32 ABI of amd64.
const otherABI = 0x40000000

// otherIoctl is its number of ioctl, beside the other one, which kernels of before 5.4 took too.
const otherIoctl = 514

// abis are the ways of calling that a kernel of this processor has.
func abis() []abi {
	switch goruntime.GOARCH {
	case "amd64":
		return []abi{{unix.AUDIT_ARCH_X86_64, 41, 16, 0, 302}, {unix.AUDIT_ARCH_I386, 359, 54, 102, 340}}
	case "arm64":
		return []abi{{unix.AUDIT_ARCH_AARCH64, 198, 29, 0, 261}, {unix.AUDIT_ARCH_ARM, 281, 54, 102, 369}}
	}
	return nil
}

// families are the kinds of sockets that know of network namespaces and that
// programs use. Of the others some do not: vsock(7) leads from a virtual machine
// straight to its host.
var families = [...]uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// keystrokes are the ioctl requests that type into the terminal: what is typed
// there the shell would run, outside, after the program has ended.
var keystrokes = [...]uint32{unix.TIOCSTI, 0x541c} // TIOCSTI, TIOCLINUX

// The parts of struct seccomp_data (seccomp(2)), offsets in bytes. The second
// argument's low half is looked at, since the calls take an int.
const (
	dataNumber = 0
	dataArch   = 4
)

func dataArgument(n uint32) uint32 { return 16 + 8*n } // little-endian: the low half comes first

// Confine installs a filter of system calls on the calling thread, which the
// caller has locked: a program that is started from it has it too, and so have
// all that this one starts. It refuses sockets of other kinds than programs
// need, typing into the terminal, and limits for another process: kimbap itself is
// one of the same user. Where the kernel can keep signals from it, it does. The
// namespaces do the rest.
func Confine() error {
	keepSignals()
	return install(filter)
}

// keepSignals lets the calling thread, and what is started from it, signal nobody else,
// by Landlock (Linux 6.12). A kernel without the mend by which threads of one process
// signal each other all the same (its second, of 6.15) is not asked: Go needs that.
func keepSignals() {
	const whichMends, ofThreads = 1 << 1, 1 << 1 // LANDLOCK_CREATE_RULESET_ERRATA
	mends, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, whichMends)
	if errno != 0 || mends&ofThreads == 0 {
		return
	}
	rules := unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_SIGNAL}
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)), unsafe.Sizeof(rules), 0)
	if errno != 0 {
		return
	}
	_, _, _ = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0)
	_ = unix.Close(int(set))
}

// Mute installs one that refuses typing into the terminal, and nothing else.
func Mute() error { return install(muted) }

func install(filter func([]abi) []unix.SockFilter) error {
	known := abis()
	if len(known) == 0 {
		return fmt.Errorf("no filter of system calls for %s", goruntime.GOARCH)
	}
	program := filter(known)
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	// The filter keeps no secret, so nobody has to run slower because of it. It needs no
	// promise to gain no privileges, since this process has every one in its namespace.
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW, uintptr(unsafe.Pointer(&prog)))
	goruntime.KeepAlive(program)
	if errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	return nil
}

// filter is the program of Confine. A call by a way that is not known ends the caller.
func filter(known []abi) []unix.SockFilter {
	out := []unix.SockFilter{}
	for _, a := range known {
		block := []unix.SockFilter{load(dataNumber)}
		if a.arch == unix.AUDIT_ARCH_X86_64 {
			block = append(block, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: otherABI, Jf: 1}, refuse(unix.ENOSYS))
		}
		block = append(block, call(a.socket, among(0, families[:], allow(), refuse(unix.EAFNOSUPPORT))...)...)
		block = append(block, call(a.ioctl, typing()...)...)
		block = append(block, call(a.prlimit, limiting()...)...)
		block = append(block, call(ioUringSetup, refuse(unix.ENOSYS))...)
		if a.socketcall != 0 {
			block = append(block, call(a.socketcall, refuse(unix.ENOSYS))...)
		}
		out = append(out, way(a, block)...)
	}
	return append(out, end(unix.SECCOMP_RET_KILL_PROCESS))
}

// muted is the program of Mute.
func muted(known []abi) []unix.SockFilter {
	out := []unix.SockFilter{}
	for _, a := range known {
		block := append([]unix.SockFilter{load(dataNumber)}, call(a.ioctl, typing()...)...)
		if a.arch == unix.AUDIT_ARCH_X86_64 {
			for _, number := range []uint32{a.ioctl, otherIoctl} {
				block = append(block, call(otherABI+number, typing()...)...)
			}
		}
		out = append(out, way(a, block)...)
	}
	return append(out, allow())
}

// The pieces of a program: a call's number is loaded where a block begins, and a block
// that knows it ends the program.

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func end(what uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: what}
}

func allow() unix.SockFilter { return end(unix.SECCOMP_RET_ALLOW) }

func refuse(errno unix.Errno) unix.SockFilter { return end(unix.SECCOMP_RET_ERRNO | uint32(errno)) }

// unless goes on if what is loaded is a value, else it skips so many.
func unless(value uint32, skip int) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jf: uint8(skip)}
}

// among ends with one answer when the argument is in the list, else another.
func among(argument uint32, list []uint32, in, out unix.SockFilter) []unix.SockFilter {
	block := []unix.SockFilter{load(dataArgument(argument))}
	for _, value := range list {
		block = append(block, unless(value, 1), in)
	}
	return append(block, out)
}

// typing refuses an ioctl that types.
func typing() []unix.SockFilter { return among(1, keystrokes[:], refuse(unix.EPERM), allow()) }

// limiting refuses a prlimit that sets a limit by the number of a process, which may be
// another one; 0 is the caller.
func limiting() []unix.SockFilter {
	const process, limit, high = 0, 2, 4
	return []unix.SockFilter{
		load(dataArgument(process)), unless(0, 1), allow(),
		load(dataArgument(limit)), unless(0, 3),
		load(dataArgument(limit) + high), unless(0, 1), allow(), // it only asks
		refuse(unix.EPERM),
	}
}

// call is a block for one system call.
func call(number uint32, block ...unix.SockFilter) []unix.SockFilter {
	return append([]unix.SockFilter{unless(number, len(block))}, block...)
}

// way is a block for the calls of one way, which allows the others.
func way(a abi, block []unix.SockFilter) []unix.SockFilter {
	return append([]unix.SockFilter{load(dataArch)}, call(a.arch, append(block, allow())...)...)
}
