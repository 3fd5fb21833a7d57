package connected

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/runtime"
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
	if c := m.coverToken(fmt.Sprintf("/proc/self/fd/%d", read.Fd()), false); len(c.Paths) > 0 {
		t.Errorf("%q is to be covered", c.Paths)
	}
	folder := t.TempDir()
	named := filepath.Join(folder, "token")
	if err := syscall.Mkfifo(named, 0o600); err != nil {
		t.Fatal(err)
	}
	if c := m.coverToken(named, false); !slices.Equal(c.Paths, []string{folder}) {
		t.Errorf("%q is to be covered", c.Paths)
	}
}

// An isolated program must not have the token. Of a file that is open already it would have
// the same opening, at whose beginning the token stands; a pipe is empty by then.
func TestAnIsolatedProgramInheritsNoFileWithTheToken(t *testing.T) {
	folder := t.TempDir()
	name := filepath.Join(folder, "token")
	if err := os.WriteFile(name, []byte("kmb_x"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	m := New(Options{Home: t.TempDir()})
	for _, gone := range []bool{false, true} {
		if gone {
			_ = os.Remove(name) // as here documents of some shells are
		}
		for _, base := range []string{"/dev/fd/%d", "/proc/self/fd/%d"} {
			handle := fmt.Sprintf(base, file.Fd())
			var refused *runtime.Error
			_, err := m.RunBare(t.Context(), BareOptions{Run: outfit.Run{Isolate: true}, URL: "http://127.0.0.1:1", TokenFile: handle})
			if !errors.As(err, &refused) || !strings.Contains(refused.Msg, handle) || !strings.Contains(refused.Hint, "through a pipe") {
				t.Errorf("%s: %v", handle, err)
			}
			if _, err := m.Run(t.Context(), RunOptions{Run: outfit.Run{Isolate: true}, TokenFile: handle}); !errors.As(err, &refused) {
				t.Errorf("%s: %v", handle, err)
			}
		}
	}
	for _, well := range []string{fmt.Sprintf("/dev/fd/%d", read.Fd()), name, ""} {
		if err := keepable(well); err != nil {
			t.Errorf("%s: %v", well, err)
		}
	}
}

// A file that is removed and made anew may get the number of the one before, and is another.
func TestAFileThatIsMadeAnewIsAnother(t *testing.T) {
	name := filepath.Join(t.TempDir(), "token")
	write := func() os.FileInfo {
		if err := os.WriteFile(name, []byte("kmb_x"), 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := write()
	told := make(chan struct{})
	defer onReplaced(t.Context(), name, func() { close(told) })()
	for range 100 {
		_ = os.Remove(name)
		if os.SameFile(first, write()) {
			break
		}
	}
	select {
	case <-told:
	case <-time.After(10 * time.Second):
		t.Error("nothing was said")
	}
}
