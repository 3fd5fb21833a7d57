package outfit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/runtime"
)

// Folder holds the files that the clients of one run read. It is this user's alone.
type Folder struct {
	Dir    string
	root   *os.Root // the folder itself, whatever has its name
	lock   *os.File // held until it is removed
	whole  *os.File // the folder, locked for systemd-tmpfiles
	bundle []byte
}

// NewFolder makes it, with what clients must trust: root, PEM, and beside it the roots
// that the user's variables name, or the system's. Who makes a folder has caught the signals
// that would end this process, and removes it.
func (r Run) NewFolder(root []byte, env Environment) (Folder, error) {
	above := r.above()
	sweep(above, time.Now())
	dir, err := os.MkdirTemp(above, ofRuns)
	if err != nil {
		return Folder{}, hindered(err)
	}
	f := Folder{Dir: dir}
	if f.root, err = os.OpenRoot(dir); err == nil {
		f.whole = holdWhole(f.root)
		f.lock, err = hold(dir)
	}
	if err == nil {
		f.bundle, err = certs.Bundle(env[bundleVar], root)
	}
	if err == nil {
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

// above is where the folder of a run is made: not where an isolated program sees nothing.
func (r Run) above() string {
	dir := runner.Temporary()
	if r.Isolate && hidden(dir) {
		return "/tmp"
	}
	return dir
}

// hidden reports whether an isolated program sees nothing of what is in a folder: /run
// is cleared for it, by whatever name it is called.
func hidden(dir string) bool {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return strings.HasPrefix(dir+"/", "/run/") || strings.HasPrefix(dir+"/", "/var/run/")
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

// Remove takes the folder away, unless a program has put something else there: that stays, and
// what has come in its place too.
func (f Folder) Remove() {
	_, _ = f.lock.Close(), f.whole.Close() // before: on Windows what is open cannot go
	if f.root != nil {
		removeOurs(f.root, contents)
		_ = f.root.Close()
	}
	_ = os.Remove(f.Dir)
}
