package home

import (
	"os"
	"path/filepath"

	"github.com/kimbap-run/kimbap/internal/system"
)

// Replace puts data under path in one step: a reader sees the file as it was or as it
// is, never a part, and after a power cut too. The folder must be there.
func Replace(path string, data []byte, mode os.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(data)
	if err == nil {
		err = os.Chmod(tmp.Name(), mode)
	}
	if err == nil {
		err = tmp.Sync() // a name that outlives a power cut has its content too
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return system.Rename(tmp.Name(), path)
}
