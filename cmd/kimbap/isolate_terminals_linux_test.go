package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// What is typed in another terminal of the user, as a PIN, is not to be read; terminals of
// its own a program has.
func TestIsolatedProgramsReadNoOtherTerminal(t *testing.T) {
	needProgram(t, installed("script", "bash"))
	name := otherTerminal(t)
	const script = `/usr/bin/python3 -c '
import os, pty, sys
try: os.close(os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)); print("open")
except OSError: pass
m, s = pty.openpty(); print(os.ttyname(s)[:9])
os.write(m, b"x\n"); print(os.read(s, 9))' "$0"
		script -qc 'tty | cut -c-9; true </dev/tty && echo yes' /dev/null </dev/null | tr -d '\r'; bash -ic 'echo interactive' 2>/dev/null`
	const needed = "/dev/pts/\nb'x\\n'\n/dev/pts/\nyes\ninteractive\n"
	isolated(t, func(t *testing.T, j jailed) {
		j.owns(t, name)
		run := func(how string) string { return j.exec(t, j.by, "", j.run(how, "sh", "-c", script, name)...).stdout }
		if open := run("--no-cover"); open != "open\n"+needed {
			t.Errorf("not isolated, the attempt proves nothing: %q", open)
		}
		if closed := run("--isolate"); closed != needed {
			t.Errorf("isolated, %q, want %q", closed, needed)
		}
	})
}

// otherTerminal is the name of a terminal.
func otherTerminal(t *testing.T) string {
	t.Helper()
	side, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	check(t, err)
	t.Cleanup(func() { _ = side.Close() })
	check(t, unix.IoctlSetPointerInt(int(side.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(side.Fd()), unix.TIOCGPTN)
	check(t, err)
	return fmt.Sprintf("/dev/pts/%d", number)
}

// The terminal of a container has another name, as /dev/console, which it keeps.
func TestIsolationKeepsTheNameOfATerminal(t *testing.T) {
	needProgram(t, installed("unshare", "mount", "setpriv", "tty"))
	isolated(t, func(t *testing.T, j jailed) {
		name, console := otherTerminal(t), filepath.Join(t.TempDir(), "console")
		j.owns(t, name)
		check(t, os.WriteFile(console, nil, 0o600))
		check(t, os.Chmod(filepath.Dir(console), 0o755))
		check(t, os.Chmod(filepath.Dir(filepath.Dir(console)), 0o755))
		const start = `mount --bind "$1" "$2" || exit 9
			exec <>"$2"; id=$3; shift 3; cd "$HOME"; exec setpriv --reuid "$id" --regid "$id" --clear-groups "$@"`
		cmd := exec.Command("unshare", append([]string{"-m", "sh", "-c", start, "sh", name, console, strconv.Itoa(j.uid)}, j.run("--isolate", "tty")...)...)
		cmd.Env = append(j.by, "HOME="+j.user)
		if out, err := cmd.Output(); err != nil || string(out) != console+"\n" {
			t.Errorf("%q, %v", out, err)
		}
		cmd = exec.Command("unshare", append([]string{"-m", "sh", "-c", start, "sh", name, "/dev/console", strconv.Itoa(j.uid)}, j.run("--isolate", "tty")...)...)
		cmd.Env = append(j.by, "HOME="+j.user)
		if out, err := cmd.Output(); err != nil || string(out) != "/dev/console\n" {
			t.Errorf("of a container: %q, %v", out, err)
		}
	})
}
