//go:build linux

package main

import (
	"bufio"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestShell takes the variables of `kimbap env` into a shell and gives them
// back, as the first screen says.
func TestShell(t *testing.T) {
	w := newWorld(t)
	w.serve(t, "api.github.com", demands("Authorization", "Bearer "+keys["github"], githubAPI(t)))
	w.serve(t, "example.com", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("an example\n")) }))
	h := w.newHome(t)
	h.env = append(h.env, "GITHUB_TOKEN="+forgotten)
	h.kimbap(t, keys["github"], "link", "github")
	h.proxied(t)

	shell := func(script string) result {
		return h.exec(t, h.env, "", "sh", "-ec", script)
	}
	t.Run("taken", func(t *testing.T) {
		r := shell(`eval "$(kimbap env)"; curl -sS https://api.github.com/user; curl -sS https://example.com/; echo "token $GITHUB_TOKEN"`)
		for _, want := range []string{`"login":"octo"`, "an example", "token ghp_kimbap"} {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("said\n%s\n%s\nwant %q", r.stdout, r.stderr, want)
			}
		}
		if !strings.Contains(r.stderr, "GITHUB_TOKEN: replaced by a placeholder") {
			t.Errorf("did not say what was replaced:\n%s", r.stderr)
		}
	})
	t.Run("taken twice", func(t *testing.T) {
		r := shell(`eval "$(kimbap env)"; wc -c <"$SSL_CERT_FILE"; eval "$(kimbap env)"; eval "$(kimbap env)"; wc -c <"$SSL_CERT_FILE"; curl -sS https://api.github.com/user; curl -sS https://example.com/`)
		sizes := strings.Fields(r.stdout)
		if len(sizes) < 3 || sizes[0] != sizes[1] || !strings.Contains(r.stdout, `"login":"octo"`) || !strings.Contains(r.stdout, "an example") {
			t.Errorf("said\n%s\n%s", r.stdout, r.stderr)
		}
	})
	t.Run("a run inside", func(t *testing.T) {
		r := shell(`eval "$(kimbap env)"; kimbap run -- curl -sS https://api.github.com/user; kimbap run -- curl -sS https://example.com/`)
		if !strings.Contains(r.stdout, `"login":"octo"`) || !strings.Contains(r.stdout, "an example") {
			t.Errorf("said\n%s\n%s", r.stdout, r.stderr)
		}
	})
	t.Run("a run with roots for one client", func(t *testing.T) {
		env := append(slices.Clone(h.env), "SSL_CERT_FILE=", "CURL_CA_BUNDLE="+w.roots)
		r := h.exec(t, env, "", "kimbap", "run", "--", "curl", "-sS", "https://example.com/")
		if r.code != 0 || r.stdout != "an example\n" {
			t.Errorf("exit code %d, said\n%s\n%s", r.code, r.stdout, r.stderr)
		}
	})
	t.Run("given back", func(t *testing.T) {
		r := shell(`eval "$(kimbap env)"; eval "$(kimbap env --unset)"; env`)
		for _, left := range []string{"HTTPS_PROXY=", "https_proxy=", "ALL_PROXY=", "NODE_EXTRA_CA_CERTS=", "ghp_kimbap"} {
			if strings.Contains(r.stdout, left) {
				t.Errorf("%s is left", left)
			}
		}
	})
}

// started is a program behind `kimbap run` that has said it is up.
func started(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	user := t.TempDir()
	cmd := exec.Command("kimbap", "run", "--", "sh", "-c", script)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + user, "TMPDIR=" + t.TempDir()}
	cmd.Dir = user
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "up\n" {
		t.Fatalf("the program said %q, %v", line, err)
	}
	return cmd
}

// TestRunPassesSignalsOn holds run to what a shell does with a program.
func TestRunPassesSignalsOn(t *testing.T) {
	needNamespace(t)
	cmd := started(t, `trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done`)
	check(t, cmd.Process.Signal(syscall.SIGTERM))
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("after SIGTERM: %v, want exit code 7 of the program", err)
	}
}

// TestRunTakesItsProgramAlong kills kimbap itself: no program may go on without
// the proxy it was started behind.
func TestRunTakesItsProgramAlong(t *testing.T) {
	needNamespace(t)
	file := filepath.Join(t.TempDir(), "pid")
	cmd := started(t, `echo $$ >`+file+`; echo up; while :; do sleep 0.05; done`)
	pid, err := os.ReadFile(file)
	check(t, err)
	check(t, cmd.Process.Kill())
	proc := "/proc/" + strings.TrimSpace(string(pid)) + "/stat"
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		stat, err := os.ReadFile(proc)
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the program lives on")
		}
	}
}
