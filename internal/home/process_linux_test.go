package home_test

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kimbap-run/kimbap/internal/home"
)

// A process that was killed holds nothing any more, also while nobody has asked how
// it ended, as where the first process of a container never does.
func TestAZombieHoldsNothing(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	holder := home.Holder(cmd.Process.Pid)
	if !home.Alive(t.TempDir(), holder) {
		t.Errorf("%s runs", holder)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if home.Alive(t.TempDir(), holder) {
		t.Errorf("%s was killed", holder)
	}
}
