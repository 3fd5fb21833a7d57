package certs

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/kimbap-run/kimbap/internal/system"
)

// writeTemp writes a finished file beside its future name and returns its path.
func writeTemp(dir string, data []byte, mode os.FileMode) (name string, err error) {
	tmp, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(mode)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	return tmp.Name(), err
}

// replaceFile puts data, which all may read, under path in one step: a reader sees
// the old file or the new one, never a part.
func replaceFile(path string, data []byte) error {
	fail := func(err error) error { return &FileError{File: path, Msg: "the file cannot be written", Err: err} }
	tmp, err := writeTemp(filepath.Dir(path), data, 0o644)
	if err != nil {
		return fail(err)
	}
	if err := system.Rename(tmp, path); err != nil {
		_ = os.Remove(tmp)
		return fail(err)
	}
	return system.SyncFolder(filepath.Dir(path))
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
