package certs

import (
	"os"
	"path/filepath"
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

// replaceFile puts data under path in one step: a reader sees the old file or
// the new one, never a part.
func replaceFile(path string, data []byte, mode os.FileMode) error {
	fail := func(err error) error { return &FileError{File: path, Msg: "the file cannot be written", Err: err} }
	tmp, err := writeTemp(filepath.Dir(path), data, mode)
	if err != nil {
		return fail(err)
	}
	if err := os.Rename(tmp, path); err != nil {
		_ = os.Remove(tmp)
		return fail(err)
	}
	return syncDir(filepath.Dir(path))
}
