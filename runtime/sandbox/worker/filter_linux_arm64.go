package worker

import "golang.org/x/sys/unix"

// filterKnown says that there is a list for this architecture.
const filterKnown = true

// filterArch is what the kernel calls it.
const filterArch = unix.AUDIT_ARCH_AARCH64

// threadFlags are those of clone by which the Go runtime makes a thread. A process has others.
const threadFlags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_SYSVSEM | unix.CLONE_THREAD
