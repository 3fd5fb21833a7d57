package runner

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// settle is how long a program has to stand still before this process does too. Where the
// shell continues all of them at once, we may be the first.
const settle = 50 * time.Millisecond

// stops is told that a program stopped, so that this process does too: a program that stops
// itself, as less does for Ctrl-Z, would otherwise leave the terminal to a process that only
// waits. A shell continues the whole job, and so both.
type stops struct {
	changed chan os.Signal
	confirm <-chan time.Time
	since   time.Time // when confirm was set
	program *os.Process
}

func watchStops(program *os.Process) *stops {
	s := &stops{changed: make(chan os.Signal, 1), program: program}
	signal.Notify(s.changed, syscall.SIGCHLD)
	s.look() // it may have stopped before
	return s
}

func (s *stops) end() { signal.Stop(s.changed) }

// look has this process stop soon, if the program has.
func (s *stops) look() {
	if s.confirm == nil && stopped(s.program.Pid) {
		s.confirm, s.since = time.After(settle), time.Now()
	}
}

// follow stops this process if the program still stands still and a shell waits for the
// terminal that both have. SIGTSTP, unlike SIGSTOP, stops nobody whom no shell could
// continue: the first process of a container, or the leader of a session.
func (s *stops) follow() {
	s.confirm = nil
	if time.Since(s.since) > 2*settle { // Ctrl-Z has stopped us too meanwhile
		s.look()
		return
	}
	if stopped(s.program.Pid) && inForeground() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGTSTP)
	}
}

// stopped reports whether a child stands still. It takes no note of that away from anybody,
// and not of its end.
func stopped(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo == int32(syscall.SIGCHLD)
}

// inForeground reports whether this process is of the job that has the terminal.
func inForeground() bool {
	terminal, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(terminal)
	group, err := unix.IoctlGetInt(terminal, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
