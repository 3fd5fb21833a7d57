package runner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// Temporary is the folder for temporary files by its whole path: programs that are told
// of a file in it go to other folders.
func Temporary() string {
	dir, err := filepath.Abs(os.TempDir())
	if err != nil {
		return "" // which says itself what is wrong, when something is made there
	}
	return dir
}

// Unplaced is what kept files from being put into the folder for temporary ones, with its
// fix: without one it would be told as a defect of kimbap.
func Unplaced(files string, err error) error {
	e := &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: files + " cannot be put into " + os.TempDir(), Err: err,
		Hint: "make room there, or name another folder for temporary files: TMPDIR=DIR",
	}
	switch {
	case system.NoDescriptors(err):
		e.Hint = "let less be open at a time, or allow more: ulimit -n 65536"
	case errors.Is(err, fs.ErrNotExist):
		e.Hint = "make that folder, or name another one for temporary files: TMPDIR=DIR"
	}
	return e
}
