package main

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attempt is one system call with arguments that would do harm if it were let.
type attempt struct {
	number uintptr
	args   [6]uintptr
}

var (
	passwd = path("/etc/passwd")
	script = path("/tmp/kimbap-probe")
	shell  = path("/bin/sh")
	here   = ^uintptr(99) // AT_FDCWD, -100
	room   [4096]byte
	memory = uintptr(unsafe.Pointer(&room))
	self   = uintptr(os.Getpid())
	parent = uintptr(os.Getppid())
	signal = uintptr(unix.SIGKILL)
)

func path(s string) uintptr { p, _ := unix.BytePtrFromString(s); return uintptr(unsafe.Pointer(p)) }

var forbidden = map[string]attempt{
	"openat":              {unix.SYS_OPENAT, [6]uintptr{here, passwd, unix.O_RDONLY}},
	"openat to write":     {unix.SYS_OPENAT, [6]uintptr{here, script, unix.O_CREAT | unix.O_WRONLY, 0o600}},
	"openat2":             {unix.SYS_OPENAT2, [6]uintptr{here, passwd, memory, 24}},
	"open by handle":      {unix.SYS_OPEN_BY_HANDLE_AT, [6]uintptr{here, memory, 0}},
	"memfd":               {unix.SYS_MEMFD_CREATE, [6]uintptr{script, 0}},
	"unlinkat":            {unix.SYS_UNLINKAT, [6]uintptr{here, script, 0}},
	"mkdirat":             {unix.SYS_MKDIRAT, [6]uintptr{here, script, 0o700}},
	"faccessat":           {unix.SYS_FACCESSAT, [6]uintptr{here, passwd, 0}},
	"statx":               {unix.SYS_STATX, [6]uintptr{here, passwd, 0, 0, memory}},
	"readlinkat":          {unix.SYS_READLINKAT, [6]uintptr{here, passwd, memory, 100}},
	"getcwd":              {unix.SYS_GETCWD, [6]uintptr{memory, 100}},
	"getdents":            {unix.SYS_GETDENTS64, [6]uintptr{0, memory, 100}},
	"dup":                 {unix.SYS_DUP, [6]uintptr{0}},
	"fcntl":               {unix.SYS_FCNTL, [6]uintptr{0, unix.F_GETFD}},
	"ioctl":               {unix.SYS_IOCTL, [6]uintptr{0, unix.TIOCSTI, memory}},
	"socket":              {unix.SYS_SOCKET, [6]uintptr{unix.AF_INET, unix.SOCK_STREAM}},
	"unix socket":         {unix.SYS_SOCKET, [6]uintptr{unix.AF_UNIX, unix.SOCK_STREAM}},
	"socketpair":          {unix.SYS_SOCKETPAIR, [6]uintptr{unix.AF_UNIX, unix.SOCK_STREAM, 0, memory}},
	"connect":             {unix.SYS_CONNECT, [6]uintptr{0, memory, 16}},
	"sendto":              {unix.SYS_SENDTO, [6]uintptr{1, memory, 1}},
	"sendmsg":             {unix.SYS_SENDMSG, [6]uintptr{1, memory}},
	"recvmsg":             {unix.SYS_RECVMSG, [6]uintptr{0, memory}},
	"execve":              {unix.SYS_EXECVE, [6]uintptr{shell, 0, 0}},
	"execveat":            {unix.SYS_EXECVEAT, [6]uintptr{here, shell, 0, 0, 0}},
	"fork":                {unix.SYS_CLONE, [6]uintptr{uintptr(unix.SIGCHLD)}},
	"vfork":               {unix.SYS_CLONE, [6]uintptr{uintptr(unix.SIGCHLD) | unix.CLONE_VFORK | unix.CLONE_VM}},
	"new namespace":       {unix.SYS_CLONE, [6]uintptr{unix.CLONE_NEWUSER | uintptr(unix.SIGCHLD)}},
	"odd thread":          {unix.SYS_CLONE, [6]uintptr{unix.CLONE_VM | unix.CLONE_SIGHAND | unix.CLONE_THREAD}},
	"clone3":              {unix.SYS_CLONE3, [6]uintptr{memory, 64}},
	"unshare":             {unix.SYS_UNSHARE, [6]uintptr{unix.CLONE_NEWUSER}},
	"setns":               {unix.SYS_SETNS, [6]uintptr{0, 0}},
	"kill parent":         {unix.SYS_KILL, [6]uintptr{parent, signal}},
	"kill self":           {unix.SYS_KILL, [6]uintptr{self, 0}},
	"tkill":               {unix.SYS_TKILL, [6]uintptr{parent, signal}},
	"tgkill parent":       {unix.SYS_TGKILL, [6]uintptr{parent, parent, signal}},
	"queue a signal":      {unix.SYS_RT_SIGQUEUEINFO, [6]uintptr{parent, signal, memory}},
	"pidfd":               {unix.SYS_PIDFD_OPEN, [6]uintptr{parent, 0}},
	"pidfd signal":        {unix.SYS_PIDFD_SEND_SIGNAL, [6]uintptr{0, signal, 0, 0}},
	"ptrace":              {unix.SYS_PTRACE, [6]uintptr{unix.PTRACE_ATTACH, parent}},
	"read other memory":   {unix.SYS_PROCESS_VM_READV, [6]uintptr{parent, memory, 1, memory, 1}},
	"write other memory":  {unix.SYS_PROCESS_VM_WRITEV, [6]uintptr{parent, memory, 1, memory, 1}},
	"limits of others":    {unix.SYS_PRLIMIT64, [6]uintptr{parent, unix.RLIMIT_CPU, 0, memory}},
	"own limits":          {unix.SYS_SETRLIMIT, [6]uintptr{unix.RLIMIT_CPU, memory}},
	"memory of code":      {unix.SYS_MMAP, [6]uintptr{0, 4096, unix.PROT_READ | unix.PROT_EXEC, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS, ^uintptr(0)}},
	"memory of a file":    {unix.SYS_MMAP, [6]uintptr{0, 4096, unix.PROT_READ, unix.MAP_PRIVATE, 0}},
	"shared memory":       {unix.SYS_MMAP, [6]uintptr{0, 4096, unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_ANONYMOUS, ^uintptr(0)}},
	"make memory code":    {unix.SYS_MPROTECT, [6]uintptr{memory &^ 4095, 4096, unix.PROT_READ | unix.PROT_EXEC}},
	"move memory":         {unix.SYS_MREMAP, [6]uintptr{memory &^ 4095, 4096, 8192, 1}},
	"poison a page":       {unix.SYS_MADVISE, [6]uintptr{memory &^ 4095, 4096, 100}},
	"futex of others":     {unix.SYS_FUTEX, [6]uintptr{memory, 1, 1}},
	"inheriting futex":    {unix.SYS_FUTEX, [6]uintptr{memory, 6 | 128, 0}},
	"io_uring":            {unix.SYS_IO_URING_SETUP, [6]uintptr{8, memory}},
	"bpf":                 {unix.SYS_BPF, [6]uintptr{0, memory, 48}},
	"perf":                {unix.SYS_PERF_EVENT_OPEN, [6]uintptr{memory, 0}},
	"userfaultfd":         {unix.SYS_USERFAULTFD, [6]uintptr{0}},
	"keyctl":              {unix.SYS_KEYCTL, [6]uintptr{0}},
	"mount":               {unix.SYS_MOUNT, [6]uintptr{passwd, passwd, 0, unix.MS_BIND}},
	"chroot":              {unix.SYS_CHROOT, [6]uintptr{passwd}},
	"setuid":              {unix.SYS_SETUID, [6]uintptr{0}},
	"uname":               {unix.SYS_UNAME, [6]uintptr{memory}},
	"another filter":      {unix.SYS_SECCOMP, [6]uintptr{1, 0, memory}},
	"a new poller":        {unix.SYS_EPOLL_CREATE1, [6]uintptr{0}},
	"sysinfo":             {unix.SYS_SYSINFO, [6]uintptr{memory}},
	"processor of others": {unix.SYS_SCHED_SETAFFINITY, [6]uintptr{parent, 8, memory}},
	"no such call":        {100_000, [6]uintptr{}},
}
