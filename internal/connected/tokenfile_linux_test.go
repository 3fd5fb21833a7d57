package connected

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// A token may come out of a pipe of the shell, which nothing can be mounted over, and which
// is empty by then. One that has a name is covered as any file.
func TestAPipeOfTheShellIsNotCovered(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	m := New(Options{Home: t.TempDir()})
	if c := m.coverToken(fmt.Sprintf("/proc/self/fd/%d", read.Fd()), false); len(c.paths) > 0 {
		t.Errorf("%q is to be covered", c.paths)
	}
	folder := t.TempDir()
	named := filepath.Join(folder, "token")
	if err := syscall.Mkfifo(named, 0o600); err != nil {
		t.Fatal(err)
	}
	if c := m.coverToken(named, false); !slices.Equal(c.paths, []string{folder}) {
		t.Errorf("%q is to be covered", c.paths)
	}
}
