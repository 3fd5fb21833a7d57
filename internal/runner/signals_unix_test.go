//go:build unix

package runner

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// The terminal sends INT and QUIT to the program and to us, and ours may come once the
// program's end is known; HUP comes twice where it closes, from the system and from the shell.
// The program's code counts then, and what is left of the run goes; what comes later ends us.
func TestASignalOfTheTerminalThatComesLateEndsNothing(t *testing.T) {
	const role = "KIMBAP_TEST_LATE"
	if after, is := os.LookupEnv(role); is {
		wait, _ := time.ParseDuration(after)
		s := Catch()
		s.Stop()
		s.Stop()
		time.Sleep(wait)
		for _, by := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGTERM} {
			_ = syscall.Kill(os.Getpid(), by)
			time.Sleep(100 * time.Millisecond)
		}
		os.Exit(7)
	}
	for after, want := range map[time.Duration]string{0: "exit status 7", settling + settling/2: "signal: interrupt"} {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), role+"="+after.String())
		out, err := cmd.CombinedOutput()
		if ended := (*exec.ExitError)(nil); !errors.As(err, &ended) || ended.Error() != want {
			t.Errorf("%v after the end: %v, want %s\n%.300s", after, err, want, out)
		}
	}
}

// What stops a run ends its program, also by what ends one on Windows, where no program is asked.
func TestStopEndsTheProgram(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	o := options("-", []string{"sleep", "600"}, func(string) {})
	o.Stop, o.Stdout, o.Stderr = stop, io.Discard, io.Discard
	if code, err := Run(o); code != 128+int(syscall.SIGTERM) || err != nil {
		t.Errorf("%d, %v", code, err)
	}
	s := &Signals{came: make(chan os.Signal, 1)}
	s.came <- ender("windows")
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if code, err := s.wait(cmd); code != 128+int(syscall.SIGKILL) || err != nil {
		t.Errorf("as on Windows: %d, %v", code, err)
	}
}

// A run that can be stopped ends with its program, or when it is stopped, whatever the program has
// started: that may have its output open.
func TestARunThatCanBeStoppedWaitsForNoHelper(t *testing.T) {
	for script, code := range map[string]int{
		`(sleep 20; echo ended >"$1") & exit 0`:           0,
		`(echo stop; sleep 20; echo ended >"$1"); exit 0`: 128 + int(syscall.SIGTERM),
	} {
		late, stop := filepath.Join(t.TempDir(), "late"), make(chan struct{})
		o := options("-", []string{"sh", "-c", script, "sh", late}, func(string) {})
		o.Stop, o.Stdout, o.Stderr = stop, heard(func() { close(stop) }), io.Discard
		if got, err := Run(o); got != code || err != nil {
			t.Errorf("%s: %d, %v", script, got, err)
		}
		if _, err := os.Stat(late); err == nil {
			t.Errorf("%s: the helper was waited for", script)
		}
	}
}

// heard is called for what a program says, which here says one word at most.
type heard func()

func (h heard) Write(p []byte) (int, error) {
	h()
	return len(p), nil
}
