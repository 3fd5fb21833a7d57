package connected

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// fileEvery is how often it is looked whether the file with the token is another.
const fileEvery = time.Second

// onReplaced calls told, once, when a file is not the one any more that it is now,
// until the end. A cover over a file is gone when another takes its name.
func onReplaced(ctx context.Context, file string, told func()) (end func()) {
	first, err := os.Stat(file)
	if file == "" || err != nil {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(fileEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if now, err := os.Stat(file); err == nil && !os.SameFile(first, now) {
				told()
				return
			}
		}
	})
	return func() { stop(); done.Wait() }
}

// tokenCover is what a program of a run does not see of the file with a token.
type tokenCover struct {
	file  string
	paths []string // files, and folders where that can be
	whole bool     // folders it is: who takes the file's name later is not seen either
}

// coverToken says what is to be covered. A cover over a file is gone when another file
// takes the name; one over the folder stays. So the folder is covered where the file has
// one of its own, and for a link that of what it leads to as well.
func (m *Machine) coverToken(file string, uncovered bool) tokenCover {
	if file == "" || uncovered {
		return tokenCover{file: file}
	}
	c := tokenCover{file: file, whole: true}
	if isHandle(file) && !reread(file) {
		return c // of a pipe or a terminal: it has no name, and was read to its end
	}
	home, err := os.Stat(m.o.Home)
	known := err == nil
	names := []string{file}
	real, err := filepath.EvalSymlinks(file)
	switch info, gone := os.Stat(file); {
	case err == nil && real != filepath.Clean(file):
		names = []string{real, file} // below the cover of the second the first is not found
	case err != nil && gone == nil && info.Mode()&os.ModeNamedPipe != 0:
		return c // such a pipe under another name
	}
	for _, name := range names {
		folder := m.ownFolder(name)
		if folder == "" {
			c.whole = c.whole && known && liesIn(filepath.Dir(name), home)
			folder = name
		}
		c.paths = append(c.paths, folder)
	}
	return c
}

// isHandle reports whether a path stands for a file that is open already: /dev/stdin, or
// what a shell makes of <(pass show kimbap).
func isHandle(file string) bool {
	file = filepath.Clean(file)
	return file == "/dev/stdin" || strings.HasPrefix(file, "/dev/fd/") || strings.HasPrefix(file, "/proc/self/fd/")
}

// reread reports whether what was read from a file can be read from it once more.
func reread(file string) bool {
	info, err := os.Stat(file)
	return err != nil || info.Mode().IsRegular()
}

// keepable refuses, for an isolated run, a token in a file that is open already: the
// program has that file open too, and no cover keeps it from reading the token there.
func keepable(file string) error {
	if !isHandle(file) || !reread(file) {
		return nil
	}
	return &runtime.Error{
		Code: runtime.CodeInvalidInput,
		Msg:  file + " is a file that the isolated program would have open too: it could read the token",
		Hint: "name the file itself, as in --token-file /run/secrets/token, or send the token through a pipe",
	}
}

// ownFolder is the folder of a file that holds nothing else, and that no program has
// another use for: it can be covered. "" otherwise. Names that begin with two dots are
// those by which Kubernetes replaces a secret.
func (m *Machine) ownFolder(file string) string {
	folder, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return ""
	}
	info, err := os.Stat(folder)
	if err != nil || system.WritableByAll(folder, info) {
		return ""
	}
	here, _ := os.Getwd()
	for _, used := range []string{here, m.env.UserDir(), os.TempDir()} {
		if liesIn(used, info) {
			return ""
		}
	}
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		if e.Name() != filepath.Base(file) && !strings.HasPrefix(e.Name(), "..") {
			return ""
		}
	}
	if err != nil {
		return ""
	}
	return folder
}

// liesIn reports whether a path is a folder or in it.
func liesIn(path string, folder os.FileInfo) bool {
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

// replaced says what it means that the file with the token is another.
func (c tokenCover) replaced() string {
	said := "the file with the token was replaced: this run keeps the token that it began with"
	if c.whole {
		return said
	}
	return said + "; its program can read the new one (in a folder of its own, or in kimbap's home, it could not)"
}
