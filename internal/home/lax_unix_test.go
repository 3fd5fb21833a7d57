//go:build unix

package home

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// A file system that keeps no permissions, whether it says so or not, gets no home, and nothing
// of one is left. What is advised is another place: the command that closes a folder would
// change nothing.
func TestAFileSystemWithoutPermissionsGetsNoHome(t *testing.T) {
	for name, refusal := range map[string]error{"silent": nil, "refusing": &fs.PathError{Op: "chmod", Err: fs.ErrPermission}} {
		t.Run(name, func(t *testing.T) {
			private := func(folder string) error {
				return errors.Join(os.MkdirAll(folder, 0o755), os.Chmod(folder, 0o755), refusal)
			}
			f := Folder{Dir: filepath.Join(t.TempDir(), "home")}
			told(t, f.begin(private))
			if _, err := os.Lstat(f.Dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the folder is left: %v", err)
			}
			if err := os.Mkdir(f.Dir, 0o755); err != nil {
				t.Fatal(err)
			}
			told(t, f.begin(private))
			if left, err := os.ReadDir(f.Dir); err != nil || len(left) > 0 {
				t.Errorf("of a folder that was there is left: %v, %v", left, err)
			}
		})
	}
	f := Folder{Dir: filepath.Join(t.TempDir(), "home")}
	if err := f.begin(system.Private); err != nil {
		t.Errorf("elsewhere: %v", err)
	}
}

func told(t *testing.T, err error) {
	t.Helper()
	e := runtime.AsError(err)
	if e == nil || e.Reason != runtime.ReasonOpenHome || !strings.Contains(e.Msg, "keeps no permissions") || !strings.Contains(e.Hint, "--home DIR") {
		t.Errorf("it says: %v, %+v", err, e)
	}
}
