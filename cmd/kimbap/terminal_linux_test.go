package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// console is a shell with job control on a terminal of its own.
type console struct {
	t     *testing.T
	side  *os.File // ours
	shell int      // its process group
	seen  string
}

// newTerminal is a terminal, by both its sides: ours, and that of programs.
func newTerminal(t *testing.T) (side, other *os.File) {
	t.Helper()
	side, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	check(t, err)
	check(t, unix.IoctlSetPointerInt(int(side.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(side.Fd()), unix.TIOCGPTN)
	check(t, err)
	check(t, unix.SetNonblock(int(side.Fd()), true)) // Fd has changed it, and deadlines need it
	other, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	check(t, err)
	return side, other
}

func newConsole(t *testing.T, env []string, dir string) *console {
	t.Helper()
	side, other := newTerminal(t)
	shell := exec.Command("sh", "-i")
	shell.Env, shell.Dir = append(env, "PS1=READY>"), dir
	shell.Stdin, shell.Stdout, shell.Stderr = other, other, other
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	check(t, shell.Start())
	check(t, other.Close())
	t.Cleanup(func() {
		_ = shell.Process.Kill()
		_ = side.Close() // its programs get SIGHUP
		_ = shell.Wait()
	})
	own := &console{t: t, side: side, shell: shell.Process.Pid}
	own.until("READY>")
	return own
}

// send types.
func (m *console) send(keys string) {
	m.t.Helper()
	_, err := m.side.WriteString(keys)
	check(m.t, err)
}

// given waits until the shell has given the terminal away: keys that come before
// are the shell's.
func (m *console) given() {
	m.t.Helper()
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(time.Millisecond) {
		group, err := unix.IoctlGetInt(int(m.side.Fd()), unix.TIOCGPGRP)
		check(m.t, err)
		check(m.t, unix.SetNonblock(int(m.side.Fd()), true))
		if group != m.shell {
			return
		}
	}
	m.t.Fatal("the shell keeps the terminal")
}

// hides waits until the terminal does not show what is typed.
func (m *console) hides() {
	m.t.Helper()
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(time.Millisecond) {
		state, err := unix.IoctlGetTermios(int(m.side.Fd()), unix.TCGETS)
		check(m.t, err)
		check(m.t, unix.SetNonblock(int(m.side.Fd()), true))
		if state.Lflag&unix.ECHO == 0 {
			return
		}
	}
	m.t.Fatal("the terminal shows what is typed")
}

// until reads as far as text, and returns what came before it.
func (m *console) until(text string) string {
	m.t.Helper()
	check(m.t, m.side.SetReadDeadline(time.Now().Add(deadline)))
	buf := make([]byte, 4096)
	for !strings.Contains(m.seen, text) {
		n, err := m.side.Read(buf)
		m.seen += string(buf[:n])
		if err != nil {
			m.t.Fatalf("%q did not come: %v after %q", text, err, m.seen)
		}
	}
	before, after, _ := strings.Cut(m.seen, text)
	m.seen = after
	return before
}

// kimbap run changes nothing about a terminal: its program has it, with its size,
// its keys and its job control.
func TestRunLeavesTheTerminalAlone(t *testing.T) {
	w := newWorld(t)
	h := w.newHome(t)
	h.kimbap(t, "", "init")
	for _, how := range []string{"", "--isolate", "--no-cover"} {
		t.Run("run "+how, func(t *testing.T) {
			m := newConsole(t, h.env, h.user)
			// What it says is nowhere in what the shell shows of the command.
			const program = `trap "expr 1111111 + 2222222" INT; trap "stty size" WINCH; tty; echo u""p; while :; do sleep 0.05; done`
			m.send("kimbap -q run " + how + " -- sh -c '" + program + "'\n")
			if said := m.until("up\r\n"); !strings.Contains(said, "/dev/pts/") {
				t.Errorf("the program has no terminal: %q", said)
			}
			check(t, unix.IoctlSetWinsize(int(m.side.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77}))
			check(t, unix.SetNonblock(int(m.side.Fd()), true))
			m.until("33 77")
			m.send("\x03") // ^C: the program decides
			m.until("3333333")
			m.send("\x1a") // ^Z: the shell has the terminal back
			m.until("Stopped")
			m.until("READY>")
			m.send("fg\n")
			m.until("kimbap")
			m.given()
			m.send("\x03")
			m.until("3333333")
			m.send("\x1c") // ^\ ends it
			m.until("READY>")
			m.send("echo code=$?\n")
			m.until("code=131")
		})
	}
}

// A program that stops itself, as less and suspend do, gives the terminal back to the shell, and
// goes on when the shell continues the job.
func TestRunStopsWithAProgramThatStopsItself(t *testing.T) {
	w := newWorld(t)
	h := w.newHome(t)
	h.kimbap(t, "", "init")
	for _, how := range []string{"", "--isolate", "--no-cover"} {
		t.Run("run "+how, func(t *testing.T) {
			m := newConsole(t, h.env, h.user)
			const program = `echo u""p; kill -TSTP $$; echo on""ce; kill -STOP $$; echo tw""ice; exit 7`
			m.send("kimbap -q run " + how + " -- sh -c '" + program + "'\n")
			m.until("up\r\n")
			m.until("Stopped")
			m.until("READY>")
			m.send("fg\n")
			m.until("once\r\n")
			m.until("Stopped")
			m.until("READY>")
			m.send("fg\n")
			m.until("twice\r\n")
			m.until("READY>")
			m.send("echo code=$?\n")
			m.until("code=7")
		})
	}
}

// A call that waits for a person counts down on the terminal, and ends with the answer
// and nothing else: once they have decided, and when it is stopped.
func TestACallThatWaitsAtATerminalEndsWell(t *testing.T) {
	w := newWorld(t)
	h := w.newHome(t)
	w.serve(t, "api.acme.example", http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(out, `{"done":"surely"}`)
	}))
	h.write(t, filepath.Join(h.user, "acme.yaml"), []byte(`name: acme
version: 1.0.0
base_url: https://api.acme.example
auth: {type: none}
actions:
  clear: {method: POST, path: /clear, risk: {level: high}}
`))
	h.kimbap(t, "", "service", "install", "./acme.yaml")
	m := newConsole(t, h.env, h.user)
	for _, end := range []string{"accept", "^C", "reject"} {
		m.send("kimbap call acme.clear\n")
		m.until("approval apr_")
		id := "apr_" + m.until(",")
		m.until("waiting for the decision, ")
		if end == "^C" {
			m.send("\x03")
		} else {
			h.kimbap(t, "", "approve", end, id)
		}
		said := m.until("READY>")
		m.send("echo code=$?\n") // behind a command that Ctrl-C ended a shell does nothing more of its line
		m.until("$?")
		m.until("code=")
		code := strings.TrimSpace(m.until("READY>"))
		want := map[string]string{"accept": "0", "^C": "130", "reject": "7"}[end]
		if code != want || strings.Contains(said, "panic") || strings.Contains(said, "surely") != (end == "accept") ||
			strings.Contains(said, "error: interrupted while a person was asked") != (end == "^C") {
			t.Errorf("%s: exit code %s, want %s: %q", end, code, want, said)
		}
	}
}

// Ctrl-C at a question ends the command at once, and the terminal shows again what is typed.
func TestAQuestionAtATerminalEndsWithCtrlC(t *testing.T) {
	w := newWorld(t)
	h := w.newHome(t)
	h.kimbap(t, "", "init")
	h.kimbap(t, "", "tenant", "create", "acme")
	m := newConsole(t, h.env, h.user)
	for _, asked := range []struct{ command, question string }{
		{"link openai", "key for openai: "},
		{"vault set acme.key --host api.acme.example", "value of acme.key: "},
		{"vault export --passphrase --out all.age", "passphrase: "},
		{"approve pin", "new PIN: "},
		{"tenant remove acme", "? [y/N] "},
		{"--timeout 1s link openai", "key for openai: "},
	} {
		m.send("kimbap " + asked.command + "\n")
		m.until(asked.question)
		want, code := "interrupted", "130"
		if strings.Contains(asked.command, "--timeout") {
			want, code = "--timeout is over", "9"
		} else {
			m.send("\x03")
		}
		said := m.until("READY>")
		m.send(`echo code=$?; stty -a | grep -o ".echo "; echo e""nd` + "\n")
		m.until("$?")
		if said += m.until("end\r\n"); !strings.Contains(said, "\nerror: ") || !strings.Contains(said, want) || !strings.Contains(said, "code="+code) || !strings.Contains(said, " echo ") {
			t.Errorf("%s: %q, want %s, exit code %s and a terminal that shows what is typed", asked.command, said, want, code)
		}
		m.until("READY>")
	}
	// The end of the input is no answer, so it is a no.
	m.send("kimbap tenant remove acme; echo code=$?; echo e\"\"nd\n")
	m.until("$?")
	m.until("? [y/N] ")
	m.send("\x04")
	if said := m.until("end\r\n"); strings.Contains(said, "EOF") || strings.Contains(said, "internal") || !strings.Contains(said, "code=") {
		t.Errorf("the end of the input: %q", said)
	}
	m.until("READY>")
	if list := h.kimbap(t, "", "tenant", "list").stdout; !strings.Contains(list, "acme") {
		t.Errorf("it was taken for a yes: %s", list)
	}
	// Nor is it a key, also behind half of one.
	for _, asked := range []struct{ command, question string }{
		{"link openai", "key for openai: "},
		{"vault set acme.key --host api.acme.example", "value of acme.key: "},
		{"vault export --passphrase --out all.age", "passphrase: "},
		{"approve pin", "new PIN: "},
	} {
		for _, keys := range []string{"\x04", "sk-half\x04\x04"} {
			m.send("kimbap " + asked.command + `; echo code=$?; stty -a | grep -o ".echo "; echo e""nd` + "\n")
			m.until("$?")
			m.until(asked.question)
			m.hides()
			m.send(keys)
			said := m.until("end\r\n")
			if !strings.Contains(said, "ended before its line did, so nothing was ") || !strings.Contains(said, "code=2") || !strings.Contains(said, " echo ") || strings.Contains(said, "half") {
				t.Errorf("%s, and %q: %q", asked.command, keys, said)
			}
			m.until("READY>")
		}
	}
	h.kimbap(t, "", "service", "install", "jq")
	for _, command := range []string{"call jq.query --input -", "call jq.query --filter @-"} { // nothing is asked, stdin is read
		m.send("kimbap --timeout 1s " + command + `; echo code=$?; echo e""nd` + "\n")
		if said := m.until("end\r\n"); !strings.Contains(said, "--timeout is over") || !strings.Contains(said, "code=9") {
			t.Errorf("%s: %q, want that the time is over, and exit code 9", command, said)
		}
		m.until("READY>")
	}
	if stored := h.kimbap(t, "", "vault", "list", "-o", "json").stdout; strings.TrimSpace(stored) != "[]" {
		t.Errorf("stored: %s", stored)
	}
}

// Ctrl-\ ends a command at once, at a question too, and the terminal shows again what is typed.
func TestATerminalShowsAgainAfterAQuit(t *testing.T) {
	w := newWorld(t)
	h := w.newHome(t)
	h.kimbap(t, "", "init")
	m := newConsole(t, h.env, h.user)
	m.send("kimbap link openai; echo code=$?; stty -a | grep -o \".echo \"; echo e\"\"nd\n")
	m.until("$?")
	m.until("key for openai: ")
	m.hides()
	m.send("sk-half\x1c")
	if said := m.until("end\r\n"); !strings.Contains(said, "\ncode=2") || !strings.Contains(said, " echo ") || strings.Contains(said, "sk-half") {
		t.Errorf("%q", said[max(0, len(said)-200):])
	}
}

// Who asks for the variables at a terminal has set none, and is told how; a shell that takes
// them is told nothing.
func TestVariablesOnATerminalAreNotTakenYet(t *testing.T) {
	w := newWorld(t)
	h := w.newHome(t)
	h.kimbap(t, "", "init")
	m := newConsole(t, append(h.env, "SHELL=/bin/sh"), h.user)
	for command, hint := range map[string]string{
		"kimbap env": `with: eval "$(kimbap env)"`, "kimbap env --unset": `with: eval "$(kimbap env --unset)"`,
		"kimbap env | cat": "", "kimbap env --shell json": "", "kimbap -q env": "",
	} {
		m.send(command + `; echo e""nd` + "\n")
		if said := m.until("end\r\n"); !strings.Contains(said, "HTTPS_PROXY") || strings.Contains(said, "takes them") != (hint != "") || !strings.Contains(said, hint) {
			t.Errorf("%s: %q", command, said)
		}
		m.until("READY>")
	}
}

// What reads a secret may stop the showing only after Ctrl-C has come: the terminal shows
// again what is typed all the same.
func TestATerminalShowsAgainWhenCtrlCComesFirst(t *testing.T) {
	side, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	check(t, err)
	defer side.Close()
	fd := int(side.Fd())
	shows := func() bool {
		state, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		check(t, err)
		return state.Lflag&unix.ECHO != 0
	}
	if !shows() {
		t.Fatal("the terminal shows nothing from the start")
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	_, err = unseenBy(ctx, fd, func() ([]byte, error) {
		cancel()
		time.Sleep(20 * time.Millisecond) // the caller is told meanwhile
		state, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil {
			state.Lflag &^= unix.ECHO
			err = unix.IoctlSetTermios(fd, unix.TCSETS, state)
		}
		close(stopped)
		<-over // nothing is typed
		return nil, err
	})
	<-stopped
	if !errors.Is(err, context.Canceled) || !shows() {
		t.Errorf("the terminal shows what is typed: %t (%v)", shows(), err)
	}
	if _, err := unseenBy(ctx, fd, func() ([]byte, error) { t.Error("it begins after Ctrl-C"); return nil, nil }); err == nil {
		t.Error("something was read")
	}
}

// JSON may have the control characters beyond ASCII as they are, and marks that turn the
// direction of a text. A terminal obeys them, and an API chooses what it answers: by
// U+009D it wrote into the clipboard.
func TestWhatAnAPIAnswersDoesNotDrawOnTheTerminal(t *testing.T) {
	w := newWorld(t)
	h := w.newHome(t)
	w.serve(t, "api.acme.example", http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(out, "{\"text\":\"\u009d52;c;cm0\u009c \u202edne \x7f\U000e0041 well é\"}")
	}))
	h.write(t, filepath.Join(h.user, "acme.yaml"), []byte(`name: acme
version: 1.0.0
base_url: https://api.acme.example
auth: {type: none}
actions:
  read: {method: GET, path: /read, risk: {level: low}}
`))
	h.kimbap(t, "", "service", "install", "./acme.yaml")
	program, err := workerBuilt()
	check(t, err)
	m := newConsole(t, h.env, h.user)
	for _, command := range []string{
		"call acme.read", "call acme.read -o json", "call acme.read --jq .", "call acme.read --jq .text", "exec -e 'return await tools.acme.read()'",
		"exec --json -e 'return await tools.acme.read()'", "exec -e 'console.log(await tools.acme.read())'",
	} {
		m.send(program + " " + command + "; echo code=$?\n")
		m.until("$?")
		said := m.until("code=")
		m.until("READY>")
		for _, r := range "\u009d\u009c\u202e\x7f\U000e0041" {
			if strings.ContainsRune(said, r) {
				t.Errorf("%s: %U comes as it is: %q", command, r, said)
			}
		}
		if !strings.Contains(said, "well é") {
			t.Errorf("%s: %q", command, said)
		}
	}
	if out := h.kimbap(t, "", "call", "acme.read"); !strings.Contains(out.stdout, "\u009d52;c;cm0\u009c \u202edne \x7f\U000e0041 well é") {
		t.Errorf("a program reads another answer: %q", out.stdout)
	}
}
