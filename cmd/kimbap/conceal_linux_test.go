package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// plainUser is a user who may do nothing on this system, with a home and a
// copy of this program.
type plainUser struct {
	dir string
	t   *testing.T
}

func newPlainUser(t *testing.T) plainUser {
	t.Helper()
	u := plainUser{t.TempDir(), t}
	self, err := os.Executable()
	check(t, err)
	program, err := os.ReadFile(self)
	check(t, err)
	check(t, os.WriteFile(u.kimbap(), program, 0o755))
	if os.Getuid() == 0 {
		check(t, os.Chown(u.dir, 65534, 65534))
		check(t, os.Chmod(filepath.Dir(u.dir), 0o755))
	}
	return u
}

// command is a program run by the user, with more in its environment.
func (u plainUser) command(env string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(u.t.Context(), name, args...)
	cmd.Dir, cmd.Env = u.dir, []string{"PATH=" + u.dir + ":" + os.Getenv("PATH"), "HOME=" + u.dir, "TMPDIR=" + u.dir, env}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	return cmd
}

func (u plainUser) kimbap() string { return filepath.Join(u.dir, "kimbap") }

// proxy is a proxy of the user that listens, until the test ends.
func (u plainUser) proxy(env string) *exec.Cmd {
	u.t.Helper()
	cmd := u.command(env, u.kimbap(), "proxy", "--listen", "127.0.0.1:0")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	stderr, err := cmd.StderrPipe()
	check(u.t, err)
	check(u.t, cmd.Start())
	u.t.Cleanup(func() { _ = cmd.Wait() })
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.Contains(lines.Text(), "listening on") {
	}
	go func() {
		for lines.Scan() {
		}
	}()
	return cmd
}

// CL-014: what kimbap run takes out of a program's environment, the program
// does not find in that of kimbap either, with the cover and without it.
func TestRunHidesItsOwnEnvironment(t *testing.T) {
	needNamespace(t)
	u := newPlainUser(t)
	const value = "sk-real-4be1f0c2a9"
	master, next := strings.Repeat("4b1e", 16), strings.Repeat("c0a9", 16)
	for _, cover := range []string{"--", "--no-cover"} {
		args := append([]string{"run", cover}, "sh", "-c", "cat /proc/[0-9]*/environ; ls -l /proc/$PPID/fd; echo done")
		cmd := u.command("OPENAI_API_KEY="+value, u.kimbap(), args...)
		cmd.Env = append(cmd.Env, "KIMBAP_MASTER_KEY="+master, "KIMBAP_MASTER_KEY_NEXT="+next)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		err := cmd.Run()
		if err != nil || !strings.Contains(said.String(), "done") {
			t.Fatalf("%s: %v\n%s", cover, err, &said)
		}
		for name, key := range map[string]string{"key": value, "master key": master, "next master key": next} {
			if strings.Contains(said.String(), key) {
				t.Errorf("run %s: the program found the %s", cover, name)
			}
		}
		if strings.Contains(said.String(), "kimbap.db") {
			t.Errorf("run %s: the program saw the files of kimbap", cover)
		}
	}
}

// FP-007: another program of the same user cannot look into a running proxy.
func TestProxyCannotBeLookedInto(t *testing.T) {
	u := newPlainUser(t)
	const value = "hidden-7c2ad1"
	proxy := u.proxy("UNRELATED=" + value)
	at := fmt.Sprintf("/proc/%d", proxy.Process.Pid)
	for _, file := range []string{"/environ", "/maps", "/mem", "/fd/0"} {
		if out, err := u.command("A=b", "head", "-c", "1", at+file).CombinedOutput(); err == nil {
			t.Errorf("%s can be read: %q", file, out)
		}
	}
	// The same look at a process that does not hide goes well.
	other := u.command("UNRELATED="+value, "sleep", "60")
	check(t, other.Start())
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	if out, err := u.command("A=b", "cat", fmt.Sprintf("/proc/%d/environ", other.Process.Pid)).CombinedOutput(); err != nil || !strings.Contains(string(out), value) {
		t.Errorf("the test cannot see: %v %q", err, out)
	}
}
