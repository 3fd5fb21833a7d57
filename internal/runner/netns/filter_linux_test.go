package netns

import (
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// judge runs the filter in a machine of our own on one system call. The kernel
// gives words in the order of the processor, that machine reads them in the
// network's, so the words are written so.
func judge(t *testing.T, arch, number uint32, args ...uint32) uint32 {
	t.Helper()
	return judgeBy(t, filter, arch, number, args...)
}

func judgeBy(t *testing.T, filter func([]abi) []unix.SockFilter, arch, number uint32, args ...uint32) uint32 {
	t.Helper()
	words := make([]byte, 64)
	put := func(at int, v uint32) {
		words[at], words[at+1], words[at+2], words[at+3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
	}
	put(dataNumber, number)
	put(dataArch, arch)
	for i, a := range args {
		put(int(dataArgument(uint32(i))), a)
	}
	var program []bpf.Instruction
	for _, f := range filter([]abi{{unix.AUDIT_ARCH_X86_64, 41, 16, 0, 302}, {unix.AUDIT_ARCH_I386, 359, 54, 102, 340}}) {
		program = append(program, bpf.RawInstruction{Op: f.Code, Jt: f.Jt, Jf: f.Jf, K: f.K}.Disassemble())
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	got, err := vm.Run(words)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(got)
}

func TestFilterRefusesWhatLeadsAround(t *testing.T) {
	const native, old = unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_I386
	refused := func(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }
	for _, c := range []struct {
		name   string
		arch   uint32
		number uint32
		args   []uint32
		want   uint32
	}{
		{"read", native, 0, []uint32{40}, unix.SECCOMP_RET_ALLOW},
		{"unix socket", native, 41, []uint32{unix.AF_UNIX}, unix.SECCOMP_RET_ALLOW},
		{"inet socket", native, 41, []uint32{unix.AF_INET}, unix.SECCOMP_RET_ALLOW},
		{"inet6 socket", native, 41, []uint32{unix.AF_INET6}, unix.SECCOMP_RET_ALLOW},
		{"netlink", native, 41, []uint32{unix.AF_NETLINK}, unix.SECCOMP_RET_ALLOW},
		{"vsock", native, 41, []uint32{unix.AF_VSOCK}, refused(unix.EAFNOSUPPORT)},
		{"packet", native, 41, []uint32{unix.AF_PACKET}, refused(unix.EAFNOSUPPORT)},
		{"bluetooth", native, 41, []uint32{unix.AF_BLUETOOTH}, refused(unix.EAFNOSUPPORT)},
		{"window size", native, 16, []uint32{0, unix.TIOCGWINSZ}, unix.SECCOMP_RET_ALLOW},
		{"typing", native, 16, []uint32{0, unix.TIOCSTI}, refused(unix.EPERM)},
		{"console", native, 16, []uint32{0, 0x541c}, refused(unix.EPERM)},
		{"own limit", native, 302, []uint32{0, 7, 0x1000}, unix.SECCOMP_RET_ALLOW},
		{"limit of another", native, 302, []uint32{77, 7, 0x1000}, refused(unix.EPERM)},
		{"limit of another, asked for", native, 302, []uint32{77, 7, 0, 0x1000}, unix.SECCOMP_RET_ALLOW},
		{"32 bits, limit of another", old, 340, []uint32{77, 7, 0x1000}, refused(unix.EPERM)},
		{"ring", native, 425, nil, refused(unix.ENOSYS)},
		{"x32", native, otherABI + 41, []uint32{unix.AF_INET}, refused(unix.ENOSYS)},
		{"32 bits, inet", old, 359, []uint32{unix.AF_INET}, unix.SECCOMP_RET_ALLOW},
		{"32 bits, vsock", old, 359, []uint32{unix.AF_VSOCK}, refused(unix.EAFNOSUPPORT)},
		{"32 bits, typing", old, 54, []uint32{0, unix.TIOCSTI}, refused(unix.EPERM)},
		{"32 bits, socketcall", old, 102, []uint32{1}, refused(unix.ENOSYS)},
		{"32 bits, ring", old, 425, nil, refused(unix.ENOSYS)},
		{"32 bits, write", old, 4, nil, unix.SECCOMP_RET_ALLOW},
		{"another processor", unix.AUDIT_ARCH_AARCH64, 0, nil, unix.SECCOMP_RET_KILL_PROCESS},
	} {
		if got := judge(t, c.arch, c.number, c.args...); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
}

func TestMutedProgramsMayDoAllButType(t *testing.T) {
	const native, old = unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_I386
	for _, c := range []struct {
		name   string
		arch   uint32
		number uint32
		args   []uint32
		typing bool
	}{
		{"typing", native, 16, []uint32{0, unix.TIOCSTI}, true},
		{"console", native, 16, []uint32{0, 0x541c}, true},
		{"x32, typing", native, otherABI + 514, []uint32{0, unix.TIOCSTI}, true},
		{"x32 by the other number, typing", native, otherABI + 16, []uint32{0, unix.TIOCSTI}, true},
		{"32 bits, typing", old, 54, []uint32{0, unix.TIOCSTI}, true},
		{"window size", native, 16, []uint32{0, unix.TIOCGWINSZ}, false},
		{"x32", native, otherABI + 41, []uint32{unix.AF_INET}, false},
		{"vsock", native, 41, []uint32{unix.AF_VSOCK}, false},
		{"ring", native, 425, nil, false},
		{"32 bits, socketcall", old, 102, []uint32{1}, false},
		{"another processor", unix.AUDIT_ARCH_AARCH64, 29, []uint32{0, unix.TIOCSTI}, false},
	} {
		want := uint32(unix.SECCOMP_RET_ALLOW)
		if c.typing {
			want = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		}
		if got := judgeBy(t, muted, c.arch, c.number, c.args...); got != want {
			t.Errorf("%s: %#x, want %#x", c.name, got, want)
		}
	}
}
