package home

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Changeable reports whether a program of this user that does not see the home can change a
// file, or one of a folder, all the same: what it leads to lies outside, and not where only
// another user can write. What is not there counts as the folder in which it can be made.
func (f Folder) Changeable(path string) (found bool) {
	home, err := os.Stat(f.Dir)
	if err != nil {
		return false
	}
	names := passed(path)
	switch real, there := reached(path); {
	case !there && !LiesIn(real, home) && changeable(real):
		return true
	case there && real != path:
		names = append(names, real)
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

// passed are the names that a path leads over, each with one link less: who can replace a link on
// the way replaces what it leads to.
func passed(path string) []string {
	names := []string{path}
	for range mostLinks {
		link := ""
		for at, below := path, ""; at != below; at, below = filepath.Dir(at), at {
			if _, err := os.Readlink(at); err == nil {
				link = at // the first of the path is found last
			}
		}
		to, err := os.Readlink(link)
		if err != nil {
			break
		}
		rest, err := filepath.Rel(link, path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(link), to)
		}
		path = filepath.Join(to, rest)
		names = append(names, path)
	}
	return names
}

// mostLinks is how many links and missing names of one path are followed.
const mostLinks = 255

// reached is what a path leads to, or, where that is not there, the nearest folder that is.
func reached(path string) (real string, there bool) {
	there = true
	for range mostLinks {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return real, there
		}
		to, err := os.Readlink(path)
		switch {
		case err != nil:
			path, there = filepath.Dir(path), false
		case filepath.IsAbs(to):
			path = to
		default:
			path = filepath.Join(filepath.Dir(path), to)
		}
	}
	return path, false
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
