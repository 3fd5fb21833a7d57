//go:build unix

package runner_test

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/runtime"
)

// What keeps a temporary file from being made is told by its kind: a full disk is not to be
// made room on where the process may open no more files, or where there is no such folder.
func TestWhatKeepsATemporaryFileFromBeingMade(t *testing.T) {
	for errno, want := range map[error]string{
		syscall.ENOSPC: "make room there",
		syscall.EMFILE: "ulimit -n",
		fs.ErrNotExist: "make that folder",
	} {
		e := runtime.AsError(runner.Unplaced("the files of a run", fmt.Errorf("clients: %w", &os.PathError{Op: "open", Err: errno})))
		if !strings.HasPrefix(e.Msg, "the files of a run cannot be put into ") || !strings.Contains(e.Hint, want) {
			t.Errorf("%v: %+v", errno, e)
		}
	}
}
