package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A command that a signal ended before its work was done has the exit code that shells
// have for that, whatever it was doing, and with -o json all it prints is JSON. What goes
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
	check(t, os.WriteFile(filepath.Join(home, "config.yaml"), fmt.Appendf(nil, "upstream: {resolve: {\"slow.test:80\": %q}}\n", silent.Addr()), 0o600))
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
	for _, test := range []struct {
		words string
		ready func(until func(string)) // waits until it is at work
		ends  bool                     // well
	}{
		{"call slow.get", asking, false},
		{"call slow.put", saying("waiting; press Ctrl-C"), false},
		{"exec -e return(await(tools.slow.get()))", asking, false},
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
				if ended := (*exec.ExitError)(nil); !errors.As(err, &ended) || ended.ExitCode() != exit {
					t.Errorf("%v, want exit code %d: %s", err, exit, said)
				}
				lines := strings.Split(strings.TrimSpace(said), "\n")
				var line struct {
					Error struct {
						Code string
						Exit int
					}
				}
				if err := json.Unmarshal([]byte(lines[len(lines)-1]), &line); err != nil || line.Error.Code != "canceled" || line.Error.Exit != exit {
					t.Errorf("the last line of stderr is %q", lines[len(lines)-1])
				}
				if stdout.Len() > 0 && !json.Valid(stdout.Bytes()) {
					t.Errorf("stdout is %q", stdout.String())
				}
			})
		}
	}
	out, err := command("audit", "search", "-o", "json", "--kind", "event", "--jq", `map(select(.event | endswith(".stop")) | .event + " " + (.fields.signal // "")) | sort`).Output()
	check(t, err)
	var stops []string
	check(t, json.Unmarshal(out, &stops))
	var want []string
	for _, what := range []string{"console", "daemon", "mcp", "proxy", "serve"} {
		want = append(want, what+".stop SIGINT", what+".stop SIGTERM")
	}
	if got := strings.Join(stops, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the trail says:\n%s", got)
	}
}
