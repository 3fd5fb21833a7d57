package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// What was revoked, denied or locked while a proxy stood still, as when a machine sleeps or a
// container is paused, holds for the very first request after that: those that came meanwhile
// among them.
func TestWhatWasTakenAwayFromAProxyThatStoodStill(t *testing.T) {
	var reached atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			reached.Add(1)
		}
	}))
	defer upstream.Close()
	r := newDaemonRig(t)
	file := filepath.Join(r.dir, "notes.yaml")
	check(t, os.WriteFile(filepath.Join(r.home, "config.yaml"), []byte("egress: {allow: [\"127.0.0.1/32\"]}\n"), 0o600))
	check(t, os.WriteFile(file, fmt.Appendf(nil, `name: notes
version: 1.0.0
base_url: %s
allow_http: true
auth: {type: bearer, credential_ref: notes.token}
actions:
  list-notes: {method: GET, path: /notes, risk: {level: low}}
  list-drafts: {method: GET, path: /drafts, risk: {level: low}}
`, upstream.URL), 0o600))
	run := func(stdin string, args ...string) string {
		t.Helper()
		cmd := r.command("", args...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.Output()
		check(t, err)
		return string(out)
	}
	run("", "service", "install", file)
	run("stored-0123456789abcdef\n", "link", "notes", "--no-check", "-q")

	proxy := r.command("", "proxy", "--listen", "127.0.0.1:0")
	said, err := proxy.StderrPipe()
	check(t, err)
	check(t, proxy.Start())
	t.Cleanup(func() { _ = proxy.Process.Kill(); _ = proxy.Wait() })
	lines := bufio.NewReader(said)
	address := listening(t, lines)
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	const cut = "none, it was cut off"              // as all are that are under way when they lose their right
	ask := func(token, path string) func() string { // which waits for the answer
		conn, err := net.Dial("tcp", address)
		check(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		req, err := http.NewRequest(http.MethodGet, upstream.URL+path, nil)
		check(t, err)
		if token != "" {
			req.SetBasicAuth("x", token)
			req.Header["Proxy-Authorization"] = req.Header["Authorization"]
			req.Header.Del("Authorization")
		}
		check(t, req.WriteProxy(conn))
		return func() string {
			answer, err := http.ReadResponse(bufio.NewReader(conn), req)
			if err != nil {
				return cut
			}
			_ = answer.Body.Close()
			return answer.Status[:3]
		}
	}
	for _, c := range []struct {
		what, path, want string
		token            bool
		take             func(id string)
	}{
		{"a token that was revoked", "/notes", "407", true, func(id string) { run("", "token", "revoke", id, "-q") }},
		{"a policy that denies", "/drafts", "403", false, func(string) {
			rules := "version: 1\nrules:\n  - {name: none, match: {action: notes.list-drafts}, then: deny}\n"
			check(t, os.WriteFile(filepath.Join(r.home, "policy.yaml"), []byte(rules), 0o600))
			run("", "token", "revoke", "--all", "-q") // which waits for two seconds for who stands still
		}},
		{"a vault that was locked", "/notes", "503", false, func(string) { run("", "lock", "--for", "1h", "-q") }},
	} {
		var made struct{ ID, Token string }
		check(t, json.Unmarshal([]byte(run("", "token", "create", "--agent", "bot", "--scope", "notes.*", "-o", "json")), &made))
		if !c.token {
			made.Token = ""
		}
		if status := ask(made.Token, c.path)(); status != "200" {
			t.Fatalf("%s: before it the status is %s", c.what, status)
		}
		reached.Store(0)
		check(t, proxy.Process.Signal(syscall.SIGSTOP))
		var stopped syscall.WaitStatus // it goes on until one of its threads has its turn and takes the signal
		if _, err := syscall.Wait4(proxy.Process.Pid, &stopped, syscall.WUNTRACED, nil); err != nil || !stopped.Stopped() {
			t.Fatalf("%s: the proxy does not stand still: %v, %#x", c.what, err, stopped)
		}
		var answers []func() string
		for range 16 {
			answers = append(answers, ask(made.Token, c.path))
		}
		c.take(made.ID)
		check(t, proxy.Process.Signal(syscall.SIGCONT))
		for _, answer := range answers {
			if status := answer(); status != c.want && status != cut {
				t.Errorf("%s: the status is %s", c.what, status)
			}
		}
		if n := reached.Load(); n > 0 {
			t.Errorf("%s: %d requests had the credential", c.what, n)
		}
	}
}
