package worker

import "golang.org/x/sys/unix"

// filterKnown says that there is a list for this architecture.
const filterKnown = true

// filterArch is what the kernel calls it. The numbers of the x32 way of calling
// have a bit of their own and match no rule.
const filterArch = unix.AUDIT_ARCH_X86_64

// threadFlags are those of clone by which the Go runtime makes a thread, here
// with a place for its own data. A process has others.
const threadFlags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_SYSVSEM | unix.CLONE_THREAD | unix.CLONE_SETTLS
