package home

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Changeable reports whether a program of this user that does not see the home can change a
// file, or one of a folder, all the same: what it leads to lies outside, and not where only
// another user can write.
func (f Folder) Changeable(path string) (found bool) {
	names := []string{path}
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		names = append(names, real)
	}
	home, err := os.Stat(f.Dir)
	if err != nil {
		return false
	}
	for _, name := range names {
		if LiesIn(filepath.Dir(name), home) {
			continue
		}
		_ = filepath.WalkDir(name, func(at string, _ fs.DirEntry, err error) error {
			if err == nil && changeable(at) {
				found = true
				return fs.SkipAll
			}
			return nil
		})
	}
	return found
}

// LiesIn reports whether a path is a folder or in it.
func LiesIn(path string, folder os.FileInfo) bool {
	path, err := filepath.EvalSymlinks(path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	for err == nil {
		if info, err := os.Stat(path); err == nil && os.SameFile(info, folder) {
			return true
		}
		above := filepath.Dir(path)
		if above == path {
			break
		}
		path = above
	}
	return false
}
