package outfit_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/runtime"
)

// What a secret was read from by a handle is not handed to a program, however it is called there.
func TestASecretIsNotHandedOn(t *testing.T) {
	for _, gone := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		var fds []int
		for range 2 {
			fd, err := syscall.Open(file, syscall.O_RDONLY, 0) // as the shell's, for programs too
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = syscall.Close(fd) }()
			fds = append(fds, fd)
		}
		if gone {
			_ = os.Remove(file)
		}
		if err := outfit.Withhold(fmt.Sprintf("/dev/fd/%d", fds[0])); err != nil {
			t.Error(err)
		}
		for _, fd := range fds {
			out, _ := exec.Command("cat", fmt.Sprintf("/proc/self/fd/%d", fd)).Output()
			if len(out) > 0 {
				t.Errorf("gone %v: a program reads %q", gone, out)
			}
		}
	}
}

// What is handed to a program on purpose is no place for a secret, but for a pipe, which is empty by then.
func TestASecretIsNoInputOfAProgram(t *testing.T) {
	const role = "KIMBAP_TEST_WITHHOLD"
	if file, is := os.LookupEnv(role); is {
		if err := outfit.Withhold(file); err != nil {
			fmt.Println("refused", runtime.AsError(err).Msg)
		}
		os.Exit(0)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		piped   bool
		refused bool
	}{{"/dev/stdin", false, true}, {"/dev/fd/0", false, true}, {file, false, true}, {"/dev/stdin", true, false}} {
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), role+"="+c.name)
		open, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		if cmd.Stdin = open; c.piped {
			cmd.Stdin = strings.NewReader("secret")
		}
		out, err := cmd.Output()
		open.Close()
		if refused := strings.HasPrefix(string(out), "refused "+c.name+" "); err != nil || refused != c.refused {
			t.Errorf("%+v: %v, %s", c, err, out)
		}
	}
}

// A file that is open already has another number in the process that covers, so it is covered
// by the name that it has, if it has one: a shell removes that of a here-document.
func TestAHandleIsCoveredByTheNameOfItsFile(t *testing.T) {
	env := outfit.NewEnvironment(nil)
	for name, want := range map[string]bool{"key": true, "removed": false, "another has the name": false} {
		file := filepath.Join(t.TempDir(), "key")
		open, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		defer open.Close()
		var paths []string
		if want {
			paths = env.CoverOf(file, t.TempDir()).Paths
		} else if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if name == "another has the name" { // by which the system shows one that is removed
			if err := os.WriteFile(file+" (deleted)", nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, base := range []string{"/dev/fd/%d", "/proc/self/fd/%d"} {
			got := env.CoverOf(fmt.Sprintf(base, open.Fd()), t.TempDir()).Paths
			if !slices.Equal(got, paths) || want && len(got) != 1 {
				t.Errorf("%s, %s: %q, want %q", name, base, got, paths)
			}
		}
	}
}
