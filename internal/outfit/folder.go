package outfit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/runtime"
)

// Folder holds the files that the clients of one run read. It is this user's alone.
type Folder struct {
	Dir    string
	bundle []byte
}

// NewFolder makes it, with what clients must trust: root, PEM, and beside it the roots
// that the user's variables name, or the system's. Who makes a folder removes it.
func (r Run) NewFolder(root []byte, env Environment) (Folder, error) {
	dir, err := os.MkdirTemp(r.above(), "kimbap-run-")
	if err != nil {
		return Folder{}, hindered(err)
	}
	f := Folder{Dir: dir}
	if f.bundle, err = certs.Bundle(env[bundleVar], root); err == nil {
		var notes []string
		root, f.bundle, notes = env.withRoots(root, certs.MadeFrom(env.ownBundle(), f.bundle))
		for _, note := range notes {
			r.Say(note)
		}
		err = os.WriteFile(filepath.Join(dir, "ca.pem"), root, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "bundle.pem"), f.bundle, 0o600)
	}
	if err != nil {
		f.Remove()
		return Folder{}, hindered(err)
	}
	return f, nil
}

// hindered gives what keeps the files of a run from being made its fix: without one it
// would be told as a defect of kimbap.
func hindered(err error) error {
	var roots *certs.FileError
	var path *fs.PathError
	switch {
	case errors.As(err, &roots) && roots.Fix != "":
		return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: roots.File + ": " + roots.Msg, Hint: roots.Fix, Err: roots.Err}
	case errors.As(err, &path):
		return runner.Unplaced("the files of a run", err)
	}
	return err
}

// above is where the folder of a run is made, "" for the usual place.
func (r Run) above() string {
	if r.Isolate && strings.HasPrefix(os.TempDir(), "/run/") {
		return "/tmp" // the other is hidden
	}
	return ""
}

// Place are the files of the folder, as a client finds them.
func (f Folder) Place() runner.Place {
	return runner.Place{
		CA: filepath.Join(f.Dir, "ca.pem"), Bundle: filepath.Join(f.Dir, "bundle.pem"), Settings: filepath.Join(f.Dir, "clients"),
	}
}

// Settle writes the settings of clients for a place in the folder.
func (f Folder) Settle(place runner.Place) error {
	return hindered(WriteSettings(place.Settings, place, f.bundle))
}

// Remove takes the folder away, with what programs have put there.
func (f Folder) Remove() { _ = os.RemoveAll(f.Dir) }
