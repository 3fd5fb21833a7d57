//go:build !linux

package ledger

import "os"

// standing is which file stands at a path and how long it is.
type standing struct {
	info os.FileInfo
	size int64
}

// standingOf is that of an open file.
func standingOf(f *os.File) (standing, error) {
	info, err := f.Stat()
	if err != nil {
		return standing{}, err
	}
	return standing{info, info.Size()}, nil
}

// standingAt is that of what a path names now.
func standingAt(path string) (standing, error) {
	info, err := os.Stat(path)
	if err != nil {
		return standing{}, err
	}
	return standing{info, info.Size()}, nil
}

// same reports whether both are one file.
func (s standing) same(as standing) bool { return os.SameFile(s.info, as.info) }
