package certs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kimbap-run/kimbap/internal/system"
)

// Names of files that are not in their place yet.
const (
	newFile = ".new-*"
	newKey  = keyFile + newFile // written, and put into place, by who holds the lock of the folder
)

// replaceFile puts data, which all may read, under path in one step: a reader sees
// the old file or the new one, never a part.
func replaceFile(path string, data []byte) error {
	if err := system.Replace(path, newFile, data, 0o644); err != nil {
		return &FileError{File: path, Msg: "the file cannot be written", Err: err}
	}
	return system.SyncFolder(filepath.Dir(path))
}

// replaceable refuses what [replaceFile] could not take the place of: a folder.
func replaceable(path string) error {
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return &FileError{File: path, Msg: "a folder is in the place of a file", Fix: moveAway}
	}
	return nil
}

// moveAway is what to do with something else in the place of a file that is a copy.
const moveAway = "move it away: the file is written again"

// maxOwn is how much is read of one of the authority's own files, in bytes: three certificates
// and a key.
const maxOwn = 1 << 20

// sweep removes what who was killed on the way has left of roots that were never used: their
// sealed keys, also under the name that a bundle on its way has, as they once had. The caller
// holds the lock of the folder, so none is another's who still wants it.
func (f rootFiles) sweep() error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		path := f.path(entry.Name())
		key, _ := filepath.Match(newKey, entry.Name())
		if other, _ := filepath.Match(newFile, entry.Name()); other {
			text, err := os.ReadFile(path)
			key = err == nil && bytes.Contains(text, []byte(sealedType))
		}
		if !key {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &FileError{File: path, Msg: "the key of a root that was never used cannot be removed", Fix: "remove it", Err: err}
		}
	}
	return nil
}

// checkPrivate refuses a file or folder that another user owns or can open.
func checkPrivate(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return &FileError{File: path, Msg: "cannot be examined", Err: err}
	}
	if owner, me := system.Owner(info), os.Geteuid(); owner >= 0 && owner != me {
		return &FileError{
			File: path, Msg: fmt.Sprintf("it belongs to another user (uid %d)", owner),
			Fix: fmt.Sprintf("chown %d %s", me, path),
		}
	}
	if how := system.Exposed(path, info); how != "" {
		return &FileError{File: path, Msg: "other users can open it (" + how + ")", Fix: system.Repair(path, info.IsDir())}
	}
	return nil
}
