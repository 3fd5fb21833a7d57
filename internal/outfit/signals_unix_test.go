//go:build unix

package outfit

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/kimbap-run/kimbap/internal/runner"
)

// come sends this process a signal, and returns when all who catch it have it.
func come(t *testing.T, s syscall.Signal) {
	t.Helper()
	seen := make(chan os.Signal, 1)
	signal.Notify(seen, s)
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		t.Fatal(err)
	}
	<-seen
	signal.Stop(seen) // which waits for those that are being told
}

// A signal that comes before the program starts nothing, and ends nothing on the way to
// where the folder is removed.
func TestASignalBeforeTheStartLeavesNothing(t *testing.T) {
	for s, want := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130, syscall.SIGHUP: 129} {
		t.Setenv("TMPDIR", t.TempDir())
		heard := make(chan os.Signal, 1)
		signal.Notify(heard, s) // who tests under nohup ignores one, which would stay so
		defer signal.Stop(heard)
		r := Run{Command: []string{"touch", filepath.Join(t.TempDir(), "started")}, Stdout: io.Discard, Stderr: io.Discard, Say: func(string) {}, Signals: runner.Catch()}
		defer r.Signals.Stop()
		f, err := r.NewFolder([]byte(root), nil)
		if err != nil {
			t.Fatal(err)
		}
		come(t, s)
		place := f.Place()
		place.Proxy = "http://127.0.0.1:1"
		o := r.Program(os.Environ(), place, nil)
		o.IsSecret = func(string) bool { return false }
		var ended interface{ ExitCode() int }
		if _, err := runner.Run(o); !errors.As(err, &ended) || ended.ExitCode() != want {
			t.Errorf("%v: %v", s, err)
		}
		f.Remove()
		if _, err := os.Stat(r.Command[1]); !os.IsNotExist(err) {
			t.Errorf("%v: the program was started", s)
		}
		if _, err := os.Stat(f.Dir); !os.IsNotExist(err) {
			t.Errorf("%v: the folder is left behind", s)
		}
	}
}
