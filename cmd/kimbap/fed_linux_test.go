package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Ctrl-C ends what feeds a command too: of a key that has come in part nothing is stored, and
// the command ends by the signal.
func TestAKeyThatCtrlCCutIsNotStored(t *testing.T) {
	r := newDaemonRig(t)
	var err error
	for range 5 { // of a machine that is busy for long the end of what feeds it may be heard first
		if err = r.cutKey(t); err == nil {
			return
		}
	}
	t.Error(err)
}

func (r daemonRig) cutKey(t *testing.T) error {
	t.Helper()
	from, to, err := os.Pipe()
	check(t, err)
	defer func() { _, _ = from.Close(), to.Close() }()
	cmd := r.command("", "vault", "set", "cut.key", "--host", "a.example")
	cmd.Stdin = from
	check(t, cmd.Start())
	_, err = to.WriteString("part")
	check(t, err)
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // it is read, and more is waited for
		if left, err := unix.IoctlGetInt(int(to.Fd()), unix.TIOCINQ); err == nil && left == 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatal("it reads no key")
		}
	}
	check(t, cmd.Process.Signal(syscall.SIGINT))
	time.Sleep(10 * time.Millisecond) // far less than the same signal has
	_ = to.Close()
	err = cmd.Wait()
	if ended := (*exec.ExitError)(nil); !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		return errors.New("it did not end by the signal")
	}
	return nil
}
