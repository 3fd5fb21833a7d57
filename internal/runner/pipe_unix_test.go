//go:build unix

package runner

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// A .env that a password manager fills, and what a variable names, may be a pipe.
func TestNoFileOfTheUsersIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, ".env")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, file := range []string{pipe, "/dev/zero"} {
			_, err := SettingsFiles(Place{Proxy: "http://h:1", Bundle: "/b", Settings: "/s", Own: map[string]string{wgetrcVar: file}}, nil, "")
			var told *runtime.Error
			if !errors.As(err, &told) || !strings.Contains(told.Msg, file) || !strings.Contains(told.Hint, wgetrcVar) {
				t.Errorf("%s: %v", file, err)
			}
		}
		_ = readable(dir, dir, nil, nil)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("a pipe is waited for")
	}
}
