package system

import (
	"errors"
	"io/fs"
	"os"
)

// Entitle gives a finished file the name to, in the same file system, and never takes the place
// of a file that has it: then it is [fs.ErrExist]. Its other name may stay, for the caller to
// remove. A link does that everywhere but where a file system has none (FAT and exFAT of sticks
// and cards, many shares) or a system refuses them: there the file is renamed.
func Entitle(from, to string) error { return entitle(from, to, os.Link) }

// entitle is Entitle with the link that the system makes.
func entitle(from, to string, link func(from, to string) error) error {
	err := link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	switch moved := renameNew(from, to); {
	case moved == nil:
		return nil
	case errors.Is(moved, fs.ErrExist):
		return moved
	}
	return err
}
