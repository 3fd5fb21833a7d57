package home

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Changeable reports whether a program of this user that does not see the home can change a
// file, or one of a folder, all the same: what it leads to lies outside, and not where only
// another user can write. What is not there counts as the folder in which it can be made.
func (f Folder) Changeable(path string) bool {
	home, err := os.Stat(f.Dir)
	if err != nil {
		return false
	}
	if led(path, home) {
		return true
	}
	real, err := filepath.EvalSymlinks(path)
	return err == nil && LiesIn(real, home) && holds(real, func(at string, entry fs.DirEntry) bool {
		return entry.Type()&fs.ModeSymlink != 0 && led(at, home)
	})
}

// led is Changeable of a path alone: not of what the links in a folder of the home lead to.
func led(path string, home os.FileInfo) bool {
	links, real, there := followed(path)
	names := append([]string{path}, links...)
	switch {
	case !there && !LiesIn(real, home) && changeable(real):
		return true
	case there && real != path:
		names = append(names, real)
	}
	for _, name := range names {
		if LiesIn(filepath.Dir(name), home) {
			continue
		}
		if holds(name, func(at string, _ fs.DirEntry) bool { return changeable(at) }) {
			return true
		}
	}
	return false
}

// holds reports whether a path, or anything in the folder that it is, is as asked.
func holds(path string, is func(at string, entry fs.DirEntry) bool) (found bool) {
	_ = filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
		if err == nil && is(at, entry) {
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// mostLinks is how many links of one path are followed.
const mostLinks = 255

// followed goes a path's way as the system does, one name after the other, since what is above
// a link is not what is above the place that it leads to. It returns the links on the way, each
// where it lies: who can replace one replaces what it leads to. The end is what the path leads
// to, or, where that is not there, the nearest folder that is.
func followed(path string) (links []string, end string, there bool) {
	end, names := named(path)
	for len(names) > 0 {
		at := filepath.Join(end, names[0])
		if _, err := os.Lstat(at); err != nil || len(links) == mostLinks {
			return links, end, false
		}
		names = names[1:]
		to, err := os.Readlink(at)
		if err != nil {
			end = at
			continue
		}
		links = append(links, at)
		root, more := named(to)
		if root != "" {
			end = root
		}
		names = append(more, names...)
	}
	return links, end, true
}

// named takes a path apart: its root, "" where it is relative, and its names.
func named(path string) (root string, names []string) {
	root = filepath.VolumeName(path)
	if filepath.IsAbs(path) {
		root += string(filepath.Separator)
	}
	return root, strings.FieldsFunc(path[len(root):], func(c rune) bool { return c < 0x80 && os.IsPathSeparator(uint8(c)) })
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
