package outfit

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// FileCover is what a program of a run does not see of a file with a secret.
type FileCover struct {
	File  string
	Paths []string // files, and folders where that can be
	Whole bool     // folders it is: who takes the file's name later is not seen either
}

// CoverOf says what is to be covered of a file, beside a home. A cover over a file is gone when
// another file takes the name; one over the folder stays. So the folder is covered where the
// file has one of its own, and for a link that of what it leads to as well. What is open already
// is covered by the name that its file has, and its handle is for [Withhold].
func (e Environment) CoverOf(file, homeDir string) FileCover {
	c := FileCover{File: file, Whole: true}
	if IsHandle(file) && !Reread(file) {
		return c // of a pipe or a terminal: it has no name, and was read to its end
	}
	folder, err := os.Stat(homeDir)
	known := err == nil
	names := []string{file}
	real, err := filepath.EvalSymlinks(file)
	switch info, gone := os.Stat(file); {
	case IsHandle(file):
		if now, rerr := os.Stat(real); gone != nil || rerr != nil || !os.SameFile(info, now) {
			return c // as of a here-document, whose file has no name any more
		}
		names = []string{real}
	case err == nil && real != filepath.Clean(file):
		names = []string{real, file} // below the cover of the second the first is not found
	case err != nil && gone == nil && info.Mode()&os.ModeNamedPipe != 0:
		return c // such a pipe under another name
	}
	for _, name := range names {
		path := e.ownFolder(name)
		if path == "" {
			c.Whole = c.Whole && known && home.LiesIn(filepath.Dir(name), folder)
			path = name
		}
		c.Paths = append(c.Paths, path)
	}
	return c
}

// Withhold keeps a file with a secret, once that is read, from the programs of a run that would
// have it open too: no cover keeps them from what the shell has opened. It refuses one that is
// their input or output. Of a pipe nothing is left to read.
func Withhold(file string) error {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || system.NotInherited(info) {
		return nil //nolint:nilerr // it was read, and is gone
	}
	return &runtime.Error{
		Code: runtime.CodeInvalidInput,
		Msg:  file + " is a file that the program would have as its input or output: it could read the secret",
		Hint: "name the file itself, as in /run/secrets/key, or send the secret through a pipe",
	}
}

// IsHandle reports whether a path stands for a file that is open already: /dev/stdin, or
// what a shell makes of <(pass show kimbap).
func IsHandle(file string) bool {
	file = filepath.Clean(file)
	return file == "/dev/stdin" || strings.HasPrefix(file, "/dev/fd/") || strings.HasPrefix(file, "/proc/self/fd/")
}

// Reread reports whether what was read from a file can be read from it once more.
func Reread(file string) bool {
	info, err := os.Stat(file)
	return err != nil || info.Mode().IsRegular()
}

// ownFolder is the folder of a file that holds nothing else, and that no program has
// another use for: it can be covered. "" otherwise. Names that begin with two dots are
// those by which Kubernetes replaces a secret.
func (e Environment) ownFolder(file string) string {
	folder, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return ""
	}
	info, err := os.Stat(folder)
	if err != nil || system.WritableByAll(folder, info) {
		return ""
	}
	here, _ := os.Getwd()
	for _, used := range []string{here, e.UserDir(), os.TempDir()} {
		if home.LiesIn(used, info) {
			return ""
		}
	}
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		if name := entry.Name(); name != filepath.Base(file) && !strings.HasPrefix(name, "..") {
			return ""
		}
	}
	if err != nil {
		return ""
	}
	return folder
}
