//go:build unix

package app_test

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// A run says what roots it loses once its folder is there: a signal that comes then must
// leave neither that nor a token that is good.
func TestASignalAtTheStartOfARunLeavesNothing(t *testing.T) {
	k := apptest.New(t, apptest.Options{})
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	o := apptest.OptionsOver(k.Dir, "run", k.Log, false)
	o.Env = append(o.Env, "CURL_CA_BUNDLE=/nowhere/roots.pem", "PATH="+os.Getenv("PATH"))
	a, err := app.New(o)
	if err == nil {
		err = a.Open(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	told := 0
	started := filepath.Join(t.TempDir(), "started")
	_, err = a.Run(t.Context(), app.RunOptions{
		Command: []string{"touch", started}, Agent: "a", NoCover: true, Stdout: io.Discard, Stderr: io.Discard, Bare: func() {},
		Say: func(string) {
			if told++; told > 1 {
				return
			}
			seen := make(chan os.Signal, 1)
			signal.Notify(seen, syscall.SIGTERM)
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
			<-seen
			signal.Stop(seen) // which waits for the others that are being told
		},
	})
	var ended interface{ ExitCode() int }
	if !errors.As(err, &ended) || ended.ExitCode() != 143 {
		t.Errorf("it ended with %v", err)
	}
	if _, err := os.Stat(started); !os.IsNotExist(err) {
		t.Error("the program was started")
	}
	if left, err := filepath.Glob(filepath.Join(dir, "kimbap-run-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if last, ok := tokenOfRun(t, a); ok && last.Revoked.IsZero() {
		t.Errorf("a token is good: %+v", last)
	}
}

// A run that could not end its token says which one is still good.
func TestARunSaysThatItsTokenIsStillGood(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	o := apptest.OptionsOver(k.Dir, "run", k.Log, false)
	o.Env = append(o.Env, "PATH="+os.Getenv("PATH"))
	a := apptest.OpenWith(t, o)
	exec := statements(t, k)
	exec("CREATE TRIGGER kept BEFORE UPDATE ON tokens BEGIN SELECT RAISE(FAIL, 'kept'); END")
	var said []string
	if _, err := a.Run(t.Context(), app.RunOptions{
		Command: []string{"true"}, Agent: "a", NoCover: true, Stdout: io.Discard, Stderr: io.Discard, Bare: func() {},
		Say: func(line string) { said = append(said, line) },
	}); err != nil {
		t.Fatal(err)
	}
	exec("DROP TRIGGER kept")
	last, ok := tokenOfRun(t, a)
	if !ok || !slices.ContainsFunc(said, func(line string) bool { return strings.Contains(line, "kimbap token revoke "+last.ID) }) {
		t.Errorf("said %q of %+v", said, last)
	}
}
