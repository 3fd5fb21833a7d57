package system

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteBeside writes a finished file into a folder, under a name of pattern (as of
// [os.CreateTemp]) that it returns: what is in it is durable, its name is not. With an error
// there is no file.
func WriteBeside(folder, pattern string, data []byte, mode os.FileMode) (name string, err error) {
	f, err := os.CreateTemp(folder, pattern) // 0600
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil && mode != 0o600 {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync() // a name that outlives a power cut has its content too
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// Replace puts a file under a path in one step: a reader sees it as it was or as it is, never a
// part, and after a power cut too. What is not in its place yet has a name of pattern in the same
// folder. That the new one is there is durable after [SyncFolder].
func Replace(path, pattern string, data []byte, mode os.FileMode) error {
	name, err := WriteBeside(filepath.Dir(path), pattern, data, mode)
	if err != nil {
		return err
	}
	if err := Rename(name, path); err != nil {
		_ = Remove(name)
		return err
	}
	return nil
}
