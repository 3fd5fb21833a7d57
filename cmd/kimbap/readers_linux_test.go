package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// lostReader is a pipe to a reader that has gone.
func lostReader(t *testing.T) *os.File {
	t.Helper()
	reads, writes, err := os.Pipe()
	check(t, err)
	t.Cleanup(func() { _ = writes.Close() })
	check(t, reads.Close())
	return writes
}

// A run whose stderr nobody reads any more ends as its program does, and leaves nothing behind.
func TestARunOutlivesItsReader(t *testing.T) {
	r := newDaemonRig(t)
	for _, flags := range [][]string{nil, {"-vv"}, {"--no-cover"}} {
		cmd := r.command("", append(append([]string{"run"}, flags...), "--", "sh", "-c", `"$0" call nothing.there; exit 7`, r.program)...)
		tmp := t.TempDir()
		cmd.Env = append(cmd.Env, "TMPDIR="+tmp)
		cmd.Stderr = lostReader(t)
		var ended *exec.ExitError
		if err := cmd.Run(); !errors.As(err, &ended) || ended.ExitCode() != 7 {
			t.Errorf("%q: %v", flags, err)
		}
		if left, err := filepath.Glob(filepath.Join(tmp, "kimbap-run-*")); err != nil || len(left) > 0 {
			t.Errorf("%q: left behind: %q, %v", flags, left, err)
		}
	}
	out, err := r.command("", "token", "list", "-o", "json", "--jq", `map(select(.status == "active"))`).Output()
	check(t, err)
	if strings.TrimSpace(string(out)) != "[]" {
		t.Errorf("tokens that are good yet: %s", out)
	}
}

// What is started by a run has the signal's own meaning: `yes | head` ends there.
func TestAProgramOfARunEndsByItsReader(t *testing.T) {
	out, err := newDaemonRig(t).command("", "run", "-q", "--", "bash", "-c", `yes | head -n 1 >/dev/null; echo "${PIPESTATUS[0]}"`).Output()
	if err != nil || string(out) != "141\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// What serves goes on when nobody reads its messages any more, and ends in order.
func TestWhatServesOutlivesItsReader(t *testing.T) {
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	r := newDaemonRig(t)
	for _, words := range []string{"proxy --listen 127.0.0.1:0 -v", "serve --listen 127.0.0.1:0 -v"} {
		cmd := r.command("", strings.Fields(words)...)
		stderr, err := cmd.StderrPipe()
		check(t, err)
		check(t, cmd.Start())
		defer func() { _ = cmd.Process.Kill() }()
		address := listening(t, bufio.NewReader(stderr))
		check(t, stderr.Close())
		client, err := net.Dial("tcp", address)
		check(t, err)
		_, err = fmt.Fprintf(client, "GET %s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", upstream.URL, strings.TrimPrefix(upstream.URL, "http://"))
		check(t, err)
		if _, err := io.Copy(io.Discard, client); err != nil { // to its end, behind which the line was
			t.Errorf("%s: %v", words, err)
		}
		_ = client.Close()
		check(t, cmd.Process.Signal(syscall.SIGTERM))
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", words, err)
		}
	}
}

// An MCP client that reads no answers any more has ended its session: what is under way has
// its outcome, and the end is in the trail.
func TestAnMCPServerOutlivesItsReader(t *testing.T) {
	arrived, goes := make(chan struct{}, 2), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		arrived <- struct{}{}
		if req.URL.Path == "/first" {
			<-goes
			return
		}
		<-req.Context().Done()
	}))
	defer upstream.Close()
	r := newDaemonRig(t)
	slowAt(t, r.home, strings.TrimPrefix(upstream.URL, "http://"))
	check(t, os.WriteFile(filepath.Join(r.dir, "slow.yaml"), []byte(`name: slow
version: 1.0.0
base_url: http://slow.test
allow_http: true
auth: {type: none}
actions:
  first: {method: GET, path: /first, risk: {level: low}}
  never: {method: GET, path: /never, risk: {level: low}}
`), 0o600))
	if out, err := r.command("", "service", "install", filepath.Join(r.dir, "slow.yaml")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := r.command("", "mcp")
	stdin, err := cmd.StdinPipe() // stays open: it reads no more, and that is all
	check(t, err)
	stdout, err := cmd.StdoutPipe()
	check(t, err)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	check(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	_, err = io.WriteString(stdin, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call","arguments":{"action":"slow.never"}}}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"call","arguments":{"action":"slow.first"}}}
`)
	check(t, err)
	_, err = bufio.NewReader(stdout).ReadString('\n')
	check(t, err)
	<-arrived
	<-arrived
	check(t, stdout.Close())
	close(goes)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v: %s", err, &stderr)
	}
	out, err := r.command("", "audit", "search", "-o", "json", "--jq", `map(.kind + " " + (.action // .event // "")) | sort`).Output()
	check(t, err)
	var records []string
	check(t, json.Unmarshal(out, &records))
	for _, want := range []string{"outcome slow.first", "outcome slow.never", "event mcp.stop"} {
		if !slices.Contains(records, want) {
			t.Errorf("%s is not in the trail: %q", want, records)
		}
	}
}
