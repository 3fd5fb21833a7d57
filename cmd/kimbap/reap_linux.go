package main

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// underInit starts this program again where it is the first process, as in a container, and is
// nothing but an init for it: what other processes leave behind becomes the first one's, which
// alone can reap it. The command could not do so itself: os/exec waits for each of its programs
// by number, and would find some reaped. The status is the child's. Where that cannot be started,
// as without a /proc, the command goes on in this process.
func underInit() (status int, is bool) {
	if os.Getpid() != 1 {
		rename()
		return 0, false
	}
	caught := forwarded()
	session := newSession()
	came := make(chan os.Signal, 64)
	signal.Notify(came, caught...)
	child, err := syscall.ForkExec(ownFile, os.Args, &syscall.ProcAttr{
		Env: forChild(os.Environ()), Files: []uintptr{0, 1, 2}, Sys: session, // others are inherited as they are
	})
	if err != nil {
		signal.Stop(came)
		if session.Setctty {
			_ = unix.IoctlSetInt(session.Ctty, unix.TIOCSCTTY, 0)
		}
		return 0, false
	}
	conceal() // the environment is the child's too
	go func() {
		for by := range came {
			if number, ok := by.(syscall.Signal); ok {
				_ = syscall.Kill(child, number)
			}
		}
	}()
	return reap(child), true
}

// rename gives the child of such an init its name, for who looks: the kernel has it from the last
// part of the path that it was started by.
func rename() {
	const comm = "/proc/self/comm"
	if os.Getppid() != 1 {
		return
	}
	if now, _ := os.ReadFile(comm); string(now) == filepath.Base(ownFile)+"\n" {
		_ = os.WriteFile(comm, []byte("kimbap"), 0)
	}
}

// forwarded are the signals that are meant for the command: all but those of this process's own
// faults, writes, children and scheduler, and those that it was started to ignore, as its child
// then is too.
func forwarded() (caught []os.Signal) {
	for number := syscall.SIGHUP; number <= lastSignal; number++ {
		switch number {
		case syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSYS,
			syscall.SIGPIPE, syscall.SIGCHLD, syscall.SIGURG, syscall.SIGTTIN, syscall.SIGTTOU:
		default:
			if !signal.Ignored(number) {
				caught = append(caught, number)
			}
		}
	}
	return caught
}

// lastSignal is the highest number of a signal.
const lastSignal syscall.Signal = 64

// newSession gives the child what the engine of a container has given this process: a session of
// its own, with the terminal, which this one gives up. So what a key or a program sends to its
// group comes once, and Ctrl-Z stops nobody whom no shell could continue. In a session that
// another process leads, as behind unshare in a shell, the child stays.
func newSession() *syscall.SysProcAttr {
	own := os.Getpid()
	if leader, err := unix.Getsid(0); err != nil || leader != own {
		return &syscall.SysProcAttr{}
	}
	for fd := range 3 {
		if leader, err := unix.IoctlGetInt(fd, unix.TIOCGSID); err != nil || leader != own {
			continue
		}
		signal.Ignore(syscall.SIGHUP) // which the terminal sends to its session as it is given up
		if unix.IoctlSetInt(fd, unix.TIOCNOTTY, 0) != nil {
			return &syscall.SysProcAttr{}
		}
		return &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: fd}
	}
	return &syscall.SysProcAttr{Setsid: true}
}

// forChild is an environment in which sockets for process 1 are the child's.
func forChild(env []string) []string {
	for i, pair := range env {
		if pair == "LISTEN_PID=1" {
			env[i] = "LISTEN_PID=" + listensByInit
		}
	}
	return env
}

// reap takes the end of every process that ends until the child has, and returns its code.
func reap(child int) int {
	for {
		var ended syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ended, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return exitOther
		case pid != child:
		case ended.Signaled():
			return exitBy(ended.Signal())
		default:
			return ended.ExitStatus()
		}
	}
}
