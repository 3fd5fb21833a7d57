package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// leaves is a program of sh that leaves five processes behind, and ends with 7 when the last trace
// of them is gone.
const leaves = `
	left=$(for n in 1 2 3 4 5; do sh -c 'true & echo $!'; done)
	for pid in $left; do while [ -e /proc/$pid ]; do sleep 0.01; done; done
	exit 7`

// ended runs a command that must end by itself.
func (r *scriptRig) ended(cmd *exec.Cmd) result {
	r.t.Helper()
	over := time.AfterFunc(deadline, func() { r.t.Errorf("it goes on: %q", cmd.Args); _ = cmd.Process.Kill() })
	defer over.Stop()
	return r.outcome(cmd)
}

// What the programs of a run leave behind is gone when it has ended: nobody else in a container
// reaps it, and its numbers count against the limit of processes.
func TestTheFirstProcessReapsWhatProgramsLeave(t *testing.T) {
	r := newTwoSpaces(t)
	for _, how := range []string{"", "--isolate", "--no-cover"} {
		t.Run("run "+how, func(t *testing.T) {
			r := *r
			r.t = t
			if got := r.ended(r.first(append(strings.Fields("run "+how), "--", "sh", "-c", leaves)...)); got.code != 7 {
				t.Errorf("exit code %d, want 7\n%s%s", got.code, got.stdout, got.stderr)
			}
		})
	}
}

// A container ends as its command does, also as one that a signal killed.
func TestTheFirstProcessEndsAsItsCommand(t *testing.T) {
	r := newTwoSpaces(t)
	for program, want := range map[string]int{
		"exit 0": 0, "exit 41": 41, "kill -KILL $$": 137, "kill -KILL $PPID; sleep 1": 137,
		"grep -qx kimbap /proc/$PPID/comm": 0, // the name by which it is found
	} {
		if got := r.ended(r.first("run", "--no-cover", "--", "sh", "-c", program)); got.code != want {
			t.Errorf("%s: exit code %d, want %d\n%s%s", program, got.code, want, got.stdout, got.stderr)
		}
	}
	if got := r.ended(r.first("show", "--nonsense")); got.code != exitUsage {
		t.Errorf("exit code %d, want %d\n%s%s", got.code, exitUsage, got.stdout, got.stderr)
	}
}

// firstOf is the first process of what unshare has started, by its number here.
func firstOf(t *testing.T, unshare *exec.Cmd) (pid int) {
	t.Helper()
	file := fmt.Sprintf("/proc/%d/task/%[1]d/children", unshare.Process.Pid)
	for end := time.Now().Add(deadline); pid == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("unshare starts nothing")
		}
		children, err := os.ReadFile(file)
		check(t, err)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(children)))
	}
	return pid
}

// A signal to the first process is one to the command: docker stop and a kubelet send SIGTERM, and
// what serves ends well, with its last record; what runs hands it to its program.
func TestTheFirstProcessHandsSignalsOn(t *testing.T) {
	r := newTwoSpaces(t)
	const program = `trap "exit 9" TERM; echo u""p; while :; do sleep 0.05; done`
	for _, test := range []struct {
		words []string
		ready string
		code  int
	}{
		{[]string{"proxy", "--listen", "127.0.0.1:0"}, "listening on http", 0},
		{[]string{"serve", "--listen", "127.0.0.1:0"}, "serving on", 0},
		{[]string{"daemon"}, "listening on unix", 0},
		{[]string{"mcp", "--listen", "127.0.0.1:0"}, "listening on http", 0},
		{[]string{"run", "--", "sh", "-c", program}, "up", 9},
	} {
		cmd := r.first(test.words...)
		reads, writes, err := os.Pipe()
		check(t, err)
		cmd.Stdout, cmd.Stderr = writes, writes
		check(t, cmd.Start())
		check(t, writes.Close())
		over := time.AfterFunc(deadline, func() { t.Errorf("%q goes on", test.words); _ = cmd.Process.Kill() })
		said := bufio.NewScanner(reads)
		for said.Scan() && !strings.Contains(said.Text(), test.ready) {
		}
		check(t, syscall.Kill(firstOf(t, cmd), syscall.SIGTERM))
		var rest []string
		for said.Scan() {
			rest = append(rest, said.Text())
		}
		_ = cmd.Wait()
		over.Stop()
		_ = reads.Close()
		if code := cmd.ProcessState.ExitCode(); code != test.code {
			t.Errorf("%q: exit code %d, want %d: %q", test.words, code, test.code, rest)
		}
	}
	var stops []string
	check(t, json.Unmarshal([]byte(r.kimbap("", "audit", "search", "-o", "json", "--kind", "event", "--jq",
		`map(select((.event | endswith(".stop")) and .fields.signal) | .event + " " + .fields.signal) | sort`)), &stops))
	if got, want := strings.Join(stops, ", "), "daemon.stop SIGTERM, mcp.stop SIGTERM, proxy.stop SIGTERM, serve.stop SIGTERM"; got != want {
		t.Errorf("the trail says %s, want %s", got, want)
	}
}

// onTerminal is a command that leads the session of a terminal of its own as its first process, as
// in a container that was started with one.
func (r *scriptRig) onTerminal(args ...string) (*console, *exec.Cmd) {
	t := r.t
	t.Helper()
	side, other := newTerminal(t)
	cmd := r.first(args...)
	at := len(cmd.Args) - len(args) - 1
	cmd.Args = append(append(cmd.Args[:at:at], "setsid", "--ctty"), cmd.Args[at:]...)
	cmd.Env = append(cmd.Env, "PS1=READY>")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = other, other, other
	check(t, cmd.Start())
	check(t, other.Close())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); _ = side.Close() })
	return &console{t: t, side: side}, cmd
}

// endedWith fails the test unless a command ends soon, with a code.
func endedWith(t *testing.T, cmd *exec.Cmd, code int) {
	t.Helper()
	over := time.AfterFunc(deadline, func() { t.Error("it goes on"); _ = cmd.Process.Kill() })
	defer over.Stop()
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
}

// The terminal of a container is its command's: keys reach the program once, a shell has job
// control, and Ctrl-Z stops nobody whom no shell could continue.
func TestTheFirstProcessLeavesTheTerminalToItsCommand(t *testing.T) {
	r := newTwoSpaces(t)
	needProgram(t, installed("setsid"))
	for _, how := range []string{"", "--isolate", "--no-cover"} {
		t.Run("run "+how, func(t *testing.T) {
			r := *r
			r.t = t
			run := append(strings.Fields("-q run "+how), "--", "sh")
			m, cmd := r.onTerminal(append(run, "-c", `trap "expr 1111111 + 2222222" INT; trap "stty size" WINCH; tty; cut -d" " -f6 /proc/self/stat; echo u""p; while :; do sleep 0.05; done`)...)
			said := m.until("up\r\n")
			if !strings.Contains(said, "/dev/pts/") {
				t.Errorf("the program has no terminal: %q", said)
			}
			if strings.HasSuffix(said, "\n1\r\n") { // what comes to its group comes to the first process too, which hands it on
				t.Errorf("the program is in the session of the first process: %q", said)
			}
			check(t, unix.IoctlSetWinsize(int(m.side.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77}))
			check(t, unix.SetNonblock(int(m.side.Fd()), true))
			m.until("33 77")
			m.send("\x1a\x03") // ^Z, ^C
			m.until("3333333")
			m.send("\x1c") // ^\ ends it
			endedWith(t, cmd, 131)

			var err error
			m, cmd = r.onTerminal(append(run, "-i")...)
			if said := m.until("READY>"); strings.Contains(said, "job control") {
				t.Errorf("the shell says %q", said)
			}
			m.shell, err = unix.IoctlGetInt(int(m.side.Fd()), unix.TIOCGPGRP)
			check(t, err)
			check(t, unix.SetNonblock(int(m.side.Fd()), true))
			m.send("cat\n")
			m.given()
			m.send("\x1a")
			m.until("Stopped")
			m.until("READY>")
			m.send("fg; echo code=$?\n")
			m.until("cat\r\n")
			m.given()
			m.send("\x03")
			m.until("READY>")
			m.send("exit 5\n")
			endedWith(t, cmd, 5)
		})
	}
}

// A key that ends what serves in a container's terminal is one request to end it, not two.
func TestTheFirstProcessPassesACtrlCOnce(t *testing.T) {
	r := newTwoSpaces(t)
	needProgram(t, installed("setsid"))
	m, cmd := r.onTerminal("proxy", "--listen", "127.0.0.1:0")
	m.until("listening on http")
	m.send("\x03")
	endedWith(t, cmd, 0)
}

// An engine that listens for a container (podman) means its first process, and the command serves there.
func TestTheFirstProcessHandsASocketOn(t *testing.T) {
	r := newTwoSpaces(t)
	socket := filepath.Join(r.home, "daemon.sock")
	manager, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	check(t, err)
	defer manager.Close()
	fd3, err := manager.File()
	check(t, err)
	defer fd3.Close()
	early, err := net.Dial("unix", socket) // before there is a daemon
	check(t, err)
	defer early.Close()
	_, err = early.Write([]byte(healthRequest))
	check(t, err)
	cmd := r.first("daemon")
	cmd.Env = append(cmd.Env, "LISTEN_PID=1", "LISTEN_FDS=1")
	cmd.ExtraFiles = []*os.File{fd3}
	check(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	wellOn(t, early)
}

// The first process has the environment that the command has, and nobody can look into it either.
func TestTheFirstProcessHidesItsEnvironment(t *testing.T) {
	needNamespace(t)
	needProgram(t, installed("unshare", "setpriv"))
	u := newPlainUser(t)
	built, err := workerBuilt()
	check(t, err)
	program, err := os.ReadFile(built)
	check(t, err)
	check(t, os.WriteFile(u.kimbap(), program, 0o755))
	master := strings.Repeat("4b1e", 16)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "-pf", "--mount-proc", "--kill-child", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
		u.kimbap(), "run", "--no-cover", "--", "sh", "-c", "cat /proc/[0-9]*/environ; cat /proc/1/comm")
	cmd.Dir, cmd.Env = u.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + u.dir, "TMPDIR=" + u.dir, "KIMBAP_MASTER_KEY=" + master}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil || ctx.Err() != nil || !strings.Contains(said.String(), "HTTPS_PROXY") {
		t.Fatalf("%v\n%s", errors.Join(err, ctx.Err()), &said)
	}
	if strings.Contains(said.String(), master) {
		t.Error("the program found the master key")
	}
}
