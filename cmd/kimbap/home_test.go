//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// deadline ends any program that a test starts.
const deadline = 90 * time.Second

// home is one user: a home folder, a kimbap home that nobody has touched, and
// everything that kimbap and its programs ever said.
type home struct {
	t    *testing.T
	user string // the user's home folder and working directory
	dir  string // kimbap's home
	env  []string
	uid  int

	mu   sync.Mutex
	said bytes.Buffer
}

func (w *world) newHome(t *testing.T) *home {
	t.Helper()
	user := t.TempDir()
	h := &home{t: t, user: user, dir: filepath.Join(user, ".kimbap")}
	h.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + user, "LANG=C.UTF-8", "TMPDIR=" + t.TempDir(),
		"KIMBAP_HOME=" + h.dir, "SSL_CERT_FILE=" + w.roots,
		"UNDICI_DIR=" + undiciDir(),
		"GIT_CONFIG_NOSYSTEM=1", "NO_COLOR=1", "GH_NO_UPDATE_NOTIFIER=1",
	}
	return h
}

// daemon is a user that every system has and that may do nothing.
const daemon = 1

// plainUser makes the home that of a user without privileges, as most are.
func (h *home) plainUser(t *testing.T, w *world) {
	t.Helper()
	bin, err := os.Executable()
	check(t, err)
	data, err := os.ReadFile(bin)
	check(t, err)
	h.uid = daemon
	for _, pair := range h.env {
		if dir, ok := strings.CutPrefix(pair, "TMPDIR="); ok {
			h.owns(t, dir)
		}
	}
	h.owns(t, h.user)
	// The folder of this test's folders, and of this test's binary, are root's.
	check(t, os.Chmod(filepath.Dir(w.dir), 0o755))
	check(t, os.WriteFile(filepath.Join(w.dir, "kimbap"), data, 0o755))
	h.env = append(h.env, "PATH="+w.dir+":"+os.Getenv("PATH"))
}

// owns gives a file or folder to the user.
func (h *home) owns(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		check(t, os.Chown(path, h.uid, h.uid))
	}
}

// write makes a file of the user's.
func (h *home) write(t *testing.T, path string, data []byte) {
	t.Helper()
	check(t, os.WriteFile(path, data, 0o644))
	h.owns(t, path)
}

// result is how a program ended.
type result struct {
	stdout, stderr string
	code           int
}

// exec runs one program to its end. Its whole process group is ended when it
// takes too long.
func (h *home) exec(t *testing.T, env []string, stdin string, argv ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	// env finds the program in the PATH that the user has.
	cmd := exec.CommandContext(ctx, "/usr/bin/env", argv...)
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, h.user, strings.NewReader(stdin), &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: uint32(h.uid), Gid: uint32(h.uid)}}
	cmd.Cancel = func() error { // by SIGABRT kimbap says first what it waits for
		time.AfterFunc(cmd.WaitDelay/2, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGABRT)
	}
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	h.hear(stdout.Bytes())
	h.hear(stderr.Bytes())
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%q: %v\n%s\n%s", argv, err, stdout.String(), stderr.String())
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

func (h *home) hear(text []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said.Write(text)
}

// heard is everything that was said so far.
func (h *home) heard() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.said.String()
}

// kimbap runs one command, as talkative as it gets, and fails the test when the
// command does.
func (h *home) kimbap(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	r := h.exec(t, h.env, stdin, append([]string{"kimbap", "-vvv"}, args...)...)
	if r.code != 0 {
		t.Fatalf("kimbap %s: exit code %d\n%s\n%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return r
}

// run is `kimbap run -- argv`, which must succeed.
func (h *home) run(t *testing.T, argv ...string) result {
	t.Helper()
	return h.kimbap(t, "", append([]string{"run", "--"}, argv...)...)
}

// proxied starts `kimbap proxy` for the length of the test, and returns the
// environment of a shell that took what `kimbap env` prints.
func (h *home) proxied(t *testing.T) []string {
	t.Helper()
	h.serves(t, "proxy", "--listen", "127.0.0.1:0")
	vars := map[string]string{}
	check(t, json.Unmarshal([]byte(h.kimbap(t, "", "env", "--shell", "json").stdout), &vars))
	var env []string
	for _, pair := range h.env {
		if name, _, _ := strings.Cut(pair, "="); vars[name] == "" && !strings.HasPrefix(name, "KIMBAP_HOME") {
			env = append(env, pair)
		}
	}
	for name, value := range vars {
		env = append(env, name+"="+value)
	}
	h.hear([]byte(strings.Join(env, "\n")))
	return env
}

// serves starts what listens for the length of the test, as the user, and returns
// the URL that it listens on.
func (h *home) serves(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("/usr/bin/env", append([]string{"kimbap", "-vvv"}, args...)...)
	stderr, err := cmd.StderrPipe()
	check(t, err)
	cmd.Env, cmd.Dir = h.env, h.user
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(h.uid), Gid: uint32(h.uid)}}
	check(t, cmd.Start())
	listening, ended := make(chan string, 1), make(chan struct{})
	go func() { h.listen(stderr, listening); close(ended) }()
	t.Cleanup(func() { h.stop(t, cmd, ended) })
	select {
	case url := <-listening:
		return url
	case <-ended:
		t.Fatalf("kimbap %v ended\n%s", args, h.heard())
	case <-time.After(deadline):
		t.Fatalf("kimbap %v does not listen", args)
	}
	return ""
}

// listen hears what is said, and hands on the URL of the line that scripts wait for.
func (h *home) listen(stderr io.Reader, listening chan<- string) {
	lines := bufio.NewScanner(stderr)
	for told := false; lines.Scan(); {
		h.hear(append(lines.Bytes(), '\n'))
		what, url, _ := strings.Cut(lines.Text(), " on ")
		if !told && (what == "listening" || what == "serving") {
			told = true
			listening <- strings.TrimSpace(url)
		}
	}
}

// stop ends the proxy the polite way and holds it to a clean exit.
func (h *home) stop(t *testing.T, cmd *exec.Cmd, ended <-chan struct{}) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	<-ended
	if err := cmd.Wait(); err != nil {
		t.Errorf("kimbap proxy after SIGTERM: %v", err)
	}
}

// needProgram leaves a test out when its client is not installed; where changes
// are gated that is a failure.
func needProgram(t *testing.T, why error) {
	t.Helper()
	if why == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("the client is missing: %v", why)
	}
	t.Skipf("LEFT OUT, the client is missing: %v (make setup installs it)", why)
}

// installed reports why programs cannot be started, nil when all can.
func installed(programs ...string) error {
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			return err
		}
	}
	return nil
}

// undiciDir is where `make setup` puts Node's modules.
func undiciDir() string {
	if dir := os.Getenv("KIMBAP_TEST_MODULES"); dir != "" {
		return dir
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	return filepath.Join(cache, "kimbap-test", "node_modules")
}
