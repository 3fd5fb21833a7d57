package runner

import (
	"os"

	"github.com/kimbap-run/kimbap/runtime"
)

// Unplaced is what kept files from being put into the folder for temporary ones, with its
// fix: without one it would be told as a defect of kimbap.
func Unplaced(files string, err error) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: files + " cannot be put into " + os.TempDir(), Err: err,
		Hint: "make room there, or name another folder for temporary files: TMPDIR=DIR",
	}
}
