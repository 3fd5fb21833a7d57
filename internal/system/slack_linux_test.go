package system

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// slackOf is the slack with which a program starts, in nanoseconds.
func slackOf(t *testing.T, start func(*exec.Cmd) error) int {
	t.Helper()
	cmd := exec.Command("cat", "/proc/self/timerslack_ns")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestOnlyOurOwnThreadsSleepLate(t *testing.T) {
	plain := func(cmd *exec.Cmd) error { return cmd.Start() }
	before := slackOf(t, plain)
	if before >= int(wideSlack) {
		t.Fatalf("these tests run with a slack of %d ns already", before)
	}
	if got := slackOf(t, Start); got != before {
		t.Errorf("before it is widened: %d, not %d", got, before)
	}

	want := int(wideSlack)
	if _, _, err := syscall.AllThreadsSyscall(unix.SYS_GETPID, 0, 0, 0); errors.Is(err, syscall.ENOTSUP) {
		want = before // a program with cgo, as the race detector needs
	}
	WidenTimerSlack()
	defer func() {
		givenSlack.Store(0)
		_, _, _ = syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, uintptr(before), 0)
	}()
	WidenTimerSlack() // what the first one has set is not what was found
	for range 3 {     // whatever thread it happens to be
		if got := slackOf(t, plain); got != want {
			t.Errorf("our own threads have %d ns, not %d", got, want)
		}
		if got := slackOf(t, Start); got != before {
			t.Errorf("what is started for others has %d ns, not %d", got, before)
		}
	}
	if err := Run(exec.Command("/no/such/program")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
	if exit := (*exec.ExitError)(nil); !errors.As(Run(exec.Command("false")), &exit) {
		t.Error("a program that fails is no error")
	}
}
