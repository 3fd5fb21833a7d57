package home

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// A file system that has no locks is told as that, at once, and not as a process that is to
// be waited for.
func TestALockThatCannotBeIsNoOtherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "files.lock")
	none := &os.SyscallError{Syscall: "flock", Err: errors.New("no locks available")}
	_, err := lockBy(t.Context(), path, time.Hour, "another process changes the files", func(*os.File) error { return none })
	if e := runtime.AsError(err); e.Code != runtime.CodeInternal || e.Reason != runtime.ReasonStorageUnavailable || e.RetryAfter != 0 || !errors.Is(err, none) ||
		!strings.Contains(e.Msg, path+" cannot be locked: flock: no locks available") || !strings.Contains(e.Hint, "file system that has locks") {
		t.Errorf("%+v", e)
	}
	_, err = lockBy(t.Context(), path, 0, "another process changes the files", func(*os.File) error { return system.ErrTaken })
	if e := runtime.AsError(err); e.Code != runtime.CodeStorageBusy || e.Msg != "another process changes the files" {
		t.Errorf("%+v", e)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := lockBy(ended, path, time.Hour, "", func(*os.File) error { return system.ErrTaken }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
