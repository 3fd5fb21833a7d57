package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A command that a signal ended before its work was done ends by that signal, which shells
// call 130 and 143, whatever it was doing, and with -o json all it prints is JSON. What goes
// on until it is stopped has ended well, and the trail says by which signal.
func TestACommandEndsAsTheSignalSays(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer silent.Close()
	arrived := make(chan net.Conn, 8)
	go func() {
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			arrived <- c // and is never answered
		}
	}()
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	check(t, os.Mkdir(home, 0o700))
	slowAt(t, home, silent.Addr().String())
	check(t, os.WriteFile(filepath.Join(dir, "slow.yaml"), []byte(`name: slow
version: 1.0.0
base_url: http://slow.test
allow_http: true
auth: {type: none}
actions:
  get: {method: GET, path: /get, risk: {level: low}}
  put: {method: PUT, path: /put, risk: {level: high}}
`), 0o600))
	self, err := os.Executable()
	check(t, err)
	program := filepath.Join(dir, "kimbap")
	check(t, os.Symlink(self, program))
	_, err = workerBuilt()
	check(t, err)
	command := func(words ...string) *exec.Cmd {
		cmd := exec.Command(program, words...)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + dir, "KIMBAP_HOME=" + home, "PATH=" + os.Getenv("PATH"), workerVar + "=" + os.Getenv(workerVar)}
		return cmd
	}
	if out, err := command("service", "install", "./slow.yaml").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	asking := func(func(string)) { client := <-arrived; t.Cleanup(func() { _ = client.Close() }) }
	saying := func(text string) func(func(string)) { return func(until func(string)) { until(text) } }
	other := filepath.Join(dir, "other") // where a daemon does what is to be done
	check(t, os.Mkdir(other, 0o700))
	check(t, os.Symlink(filepath.Join(home, "config.yaml"), filepath.Join(other, "config.yaml")))
	if out, err := command("--home", other, "service", "install", "./slow.yaml").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	daemon := command("--home", other, "daemon")
	serves, err := daemon.StderrPipe()
	check(t, err)
	check(t, daemon.Start())
	defer func() { _ = daemon.Process.Kill(); _ = daemon.Wait() }()
	for said := bufio.NewScanner(serves); !strings.Contains(said.Text(), "listening on unix"); {
		if !said.Scan() {
			t.Fatal("the daemon does not serve")
		}
	}
	for _, test := range []struct {
		words string
		ready func(until func(string)) // waits until it is at work
		ends  bool                     // well
	}{
		{"call slow.get", asking, false},
		{"--home other call slow.get", asking, false},
		{"call slow.put", saying("waiting; press Ctrl-C"), false},
		{"--home other call slow.put", saying("waiting; press Ctrl-C"), false},
		{"exec -e return(await(tools.slow.get()))", asking, false},
		{"--home other exec --wait 5m -e return(await(tools.slow.put()))", saying("exec --resume exe"), false},
		{"proxy --listen 127.0.0.1:0", saying("listening on http"), true},
		{"serve --listen 127.0.0.1:0", saying("serving on"), true},
		{"daemon", saying("listening on unix"), true},
		{"console --listen 127.0.0.1:0", saying("open this"), true},
		{"mcp --listen 127.0.0.1:0", saying("listening on http"), true},
		{"approve watch", saying("watching;"), true},
	} {
		for by, exit := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
			t.Run(test.words+" "+by.String(), func(t *testing.T) {
				cmd := command(append(strings.Fields(test.words), "--json")...)
				if strings.HasPrefix(test.words, "--home other") { // settings of a command's own are for no daemon
					cmd.Env = slices.DeleteFunc(cmd.Env, func(pair string) bool { return strings.HasPrefix(pair, workerVar) })
				}
				var stdout bytes.Buffer
				cmd.Stdout = &stdout
				stderr, err := cmd.StderrPipe()
				check(t, err)
				check(t, cmd.Start())
				defer func() { _ = cmd.Process.Kill() }()
				said := ""
				test.ready(func(text string) {
					buf := make([]byte, 1024)
					for !strings.Contains(said, text) {
						n, err := stderr.Read(buf)
						check(t, err)
						said += string(buf[:n])
					}
				})
				check(t, cmd.Process.Signal(by))
				rest, err := io.ReadAll(stderr)
				check(t, err)
				said += string(rest)
				err = cmd.Wait()
				if test.ends {
					if err != nil {
						t.Errorf("%v: %s", err, said)
					}
					return
				}
				if ended := (*exec.ExitError)(nil); !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != by {
					t.Errorf("%v, want the end by %v, which a shell calls %d: %s", err, by, exit, said)
				}
				lines := strings.Split(strings.TrimSpace(said), "\n")
				var line struct {
					Error struct {
						Code, Hint string
						Exit       int
						Approval   string `json:"approval_id"`
					}
				}
				if err := json.Unmarshal([]byte(lines[len(lines)-1]), &line); err != nil || line.Error.Code != "canceled" || line.Error.Exit != exit ||
					(line.Error.Approval != "" && strings.Contains(line.Error.Hint, line.Error.Approval)) != strings.HasSuffix(test.words, "slow.put") {
					t.Errorf("the last line of stderr is %q", lines[len(lines)-1])
				}
				if strings.Contains(line.Error.Hint, "exec --resume exe") != strings.Contains(test.words, "exec --wait") {
					t.Errorf("the last line of stderr is %q", lines[len(lines)-1])
				}
				if stdout.Len() > 0 && !json.Valid(stdout.Bytes()) {
					t.Errorf("stdout is %q", stdout.String())
				}
			})
		}
	}
	t.Run("in a loop", func(t *testing.T) { // behind a program that ends by itself bash goes on
		loop := exec.Command("bash", "-c", "while true; do ./kimbap call slow.get 2>&1; echo again; done")
		of := command()
		loop.Dir, loop.Env = dir, of.Env
		loop.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for all of them
		stdout, err := loop.StdoutPipe()
		check(t, err)
		check(t, loop.Start())
		asking(nil)
		check(t, syscall.Kill(-loop.Process.Pid, syscall.SIGINT))
		said := bufio.NewScanner(stdout)
		for said.Scan() {
			if said.Text() == "again" {
				t.Error("it went on")
				check(t, syscall.Kill(-loop.Process.Pid, syscall.SIGKILL))
			}
		}
		err = loop.Wait()
		if ended := (*exec.ExitError)(nil); !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
			t.Errorf("the shell ended with %v", err)
		}
	})
	ask := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`
	for id := 2; id <= 100; id++ { // an id that is used again before its answer is passed over
		ask += fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`+"\n", id)
	}
	for _, words := range [][]string{{"exec", "--json", "-e", "return 'x'.repeat(1e6)"}, {"mcp", "--json"}} {
		heldUp(t, command(words...), ask)
	}
	out, err := command("audit", "search", "-o", "json", "--kind", "event", "--jq", `map(select(.event | endswith(".stop")) | .event + " " + (.fields.signal // "")) | sort`).Output()
	check(t, err)
	var stops []string
	check(t, json.Unmarshal(out, &stops))
	var want []string
	for _, what := range []string{"console", "daemon", "mcp", "proxy", "serve"} {
		want = append(want, what+".stop SIGINT", what+".stop SIGTERM")
	}
	if got := strings.Join(slices.Compact(stops), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the trail says:\n%s", got)
	}
}

// waitsFor reports whether a thread of a process waits in a function of the kernel of such a name.
func waitsFor(t *testing.T, pid int, name string) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", pid))
	check(t, err)
	return slices.ContainsFunc(threads, func(file string) bool {
		function, _ := os.ReadFile(file) // a thread may be gone
		return strings.Contains(string(function), name)
	})
}

// heldUp tells a command to end whose output is sent to a program that has stopped to read.
func heldUp(t *testing.T, cmd *exec.Cmd, input string) {
	t.Run("unread "+cmd.Args[1], func(t *testing.T) {
		reads, writes, err := os.Pipe()
		check(t, err)
		defer reads.Close()
		stdin, err := cmd.StdinPipe()
		check(t, err)
		defer stdin.Close()
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = writes, &stderr
		defer writes.Close()
		check(t, cmd.Start())
		defer func() { _ = cmd.Process.Kill() }()
		_, _ = io.WriteString(stdin, input)
		for room, end := 1, time.Now().Add(deadline); room > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it says less than there is room for")
			}
			room, err = unix.Poll([]unix.PollFd{{Fd: int32(writes.Fd()), Events: unix.POLLOUT}}, 0)
			check(t, err)
		}
		// There is room for a few short lines yet, with which it could end well. Where the
		// kernel does not say what a thread waits for, a while is waited.
		for end := time.Now().Add(5 * time.Second); !waitsFor(t, cmd.Process.Pid, "pipe_write") && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		check(t, cmd.Process.Signal(syscall.SIGTERM))
		ended := time.AfterFunc(deadline, func() { t.Error("it goes on"); _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		ended.Stop()
		if got := cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(); got != syscall.SIGTERM || !strings.Contains(stderr.String(), `"code":"canceled"`) {
			t.Errorf("it ended by %v: %s", got, &stderr)
		}
	})
}
