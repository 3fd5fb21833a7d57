package wrap_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/runtime/vault/wrap"
)

// A command that is ended, for its time or with the call, ends with all that it has started: one
// that waits for a person would wait for ever, and each call would leave another one.
func TestACommandEndsWithWhatItStarted(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	if err := os.WriteFile(pids, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const program = `sh -c 'sleep 60 & echo $! >>"$1"; sleep 60' - "$1" & echo $! >>"$1"; wait`
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := wrap.Commands{Env: os.Environ(), Timeout: time.Minute}.Fetch(ctx, vault.Reference{Command: []string{"/bin/sh", "-c", program, "-", pids}})
		ended <- err
	}()
	started := func() []string {
		text, _ := os.ReadFile(pids)
		return strings.Fields(string(text))
	}
	eventually(t, "two programs", func() bool { return len(started()) == 2 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, pid := range started() {
		eventually(t, "the end of "+pid, func() bool {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			return err != nil || bytes.Contains(stat, []byte(") Z ")) // who inherited it has not waited for it yet
		})
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}
