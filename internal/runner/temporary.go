package runner

import (
	"os"
	"path/filepath"

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
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: files + " cannot be put into " + os.TempDir(), Err: err,
		Hint: "make room there, or name another folder for temporary files: TMPDIR=DIR",
	}
}
