package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// daemonRig is a home, and the program that serves it.
type daemonRig struct {
	dir, home, program string
}

func newDaemonRig(t *testing.T) daemonRig {
	t.Helper()
	dir := t.TempDir()
	r := daemonRig{dir: dir, home: filepath.Join(dir, "h"), program: filepath.Join(dir, "kimbap")}
	self, err := os.Executable()
	check(t, err)
	check(t, os.Symlink(self, r.program))
	if out, err := r.command("", "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("init: %v\n%s", err, out)
	}
	return r
}

func (r daemonRig) socket() string { return filepath.Join(r.home, "daemon.sock") }

// command is kimbap as a service manager starts it: by a process that becomes it,
// with prefix before.
func (r daemonRig) command(prefix string, args ...string) *exec.Cmd {
	cmd := exec.Command("sh", append([]string{"-c", prefix + ` exec "$0" "$@"`, r.program}, args...)...)
	cmd.Env = []string{"HOME=" + r.dir, "KIMBAP_HOME=" + r.home, "PATH=" + os.Getenv("PATH")}
	return cmd
}

// running is a daemon that says that it listens.
func (r daemonRig) running(t *testing.T, prefix string, files ...*os.File) *exec.Cmd {
	t.Helper()
	cmd := r.command(prefix, "daemon")
	cmd.ExtraFiles = files
	said, err := cmd.StderrPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(said).ReadString('\n')
	if want := "listening on unix:" + r.socket() + "\n"; err != nil || line != want {
		t.Fatalf("%q, %v, want %q", line, err, want)
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	return cmd
}

// fails runs a daemon that cannot start, and returns its exit code and what it says.
func (r daemonRig) fails(t *testing.T, prefix string, files ...*os.File) (int, string) {
	t.Helper()
	cmd := r.command(prefix, "daemon")
	cmd.ExtraFiles = files
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("it ended well: %s", out)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// wellOn asks for the health of whatever answers on a connection.
func wellOn(t *testing.T, conn net.Conn) {
	t.Helper()
	check(t, conn.SetDeadline(time.Now().Add(deadline)))
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	check(t, err)
	if _ = answer.Body.Close(); answer.StatusCode != http.StatusOK {
		t.Errorf("health: %s", answer.Status)
	}
}

const healthRequest = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"

func (r daemonRig) ask(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", r.socket())
	check(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, healthRequest)
	check(t, err)
	return conn
}

// stop ends a daemon as its owner does.
func (r daemonRig) stop(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := r.command("", "daemon", "--stop").CombinedOutput(); err != nil {
		t.Fatalf("stop: %v\n%s", err, out)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the daemon ended with %v", err)
	}
}

// A service manager listens, and starts the daemon when somebody comes (sd_listen_fds):
// who came before it ran is answered, and the socket stays the manager's.
func TestTheDaemonTakesTheSocketOfAServiceManager(t *testing.T) {
	r := newDaemonRig(t)
	manager, err := net.ListenUnix("unix", &net.UnixAddr{Name: r.socket(), Net: "unix"})
	check(t, err)
	defer manager.Close()
	fd3, err := manager.File()
	check(t, err)
	defer fd3.Close()
	early := r.ask(t)
	cmd := r.running(t, "LISTEN_PID=$$ LISTEN_FDS=1", fd3)
	wellOn(t, early)
	code, said := r.fails(t, "")
	if want := fmt.Sprintf("a daemon of this home runs already, pid %d", cmd.Process.Pid); code != exitUsage || !strings.Contains(said, want) {
		t.Errorf("a second one: exit %d, %s", code, said)
	}
	wellOn(t, r.ask(t))
	r.stop(t, cmd)
	if info, err := os.Stat(r.socket()); err != nil || info.Mode()&os.ModeSocket == 0 {
		t.Errorf("the manager's socket: %v", err)
	}
	again := r.ask(t) // it still listens, and starts another
	next := r.running(t, "LISTEN_PID=$$ LISTEN_FDS=1", fd3)
	wellOn(t, again)
	r.stop(t, next)
}

// A daemon whose socket is gone is not denied: how to end it is said.
func TestADaemonWithoutItsSocketIsToldOf(t *testing.T) {
	r := newDaemonRig(t)
	cmd := r.running(t, "")
	check(t, os.Remove(r.socket()))
	out, err := r.command("", "daemon", "--stop").CombinedOutput()
	if want := fmt.Sprintf("fix:   kill %d\n", cmd.Process.Pid); err == nil || !strings.Contains(string(out), want) {
		t.Errorf("%v: %s, want %s", err, out, want)
	}
	check(t, cmd.Process.Signal(syscall.SIGTERM))
	check(t, cmd.Wait())
}

// What is handed over for another process, or is no socket, is not served.
func TestTheDaemonTakesNoOtherDescriptor(t *testing.T) {
	r := newDaemonRig(t)
	file, err := os.Open(filepath.Join(r.home, "policy.yaml"))
	check(t, err)
	defer file.Close()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer tcp.Close()
	network, err := tcp.(*net.TCPListener).File()
	check(t, err)
	defer network.Close()
	for name, c := range map[string]struct {
		prefix string
		fd3    *os.File
	}{
		"a file":          {"LISTEN_PID=$$ LISTEN_FDS=1", file},
		"a TCP socket":    {"LISTEN_PID=$$ LISTEN_FDS=1", network},
		"two descriptors": {"LISTEN_PID=$$ LISTEN_FDS=2", file},
		"no number":       {"LISTEN_PID=$$ LISTEN_FDS=x", file},
	} {
		if code, said := r.fails(t, c.prefix, c.fd3); code != exitUsage || !strings.Contains(said, "LISTEN_FDS") {
			t.Errorf("%s: exit %d, %s", name, code, said)
		}
	}
	cmd := r.running(t, "LISTEN_PID=1 LISTEN_FDS=1", network) // meant for another: it makes its own
	wellOn(t, r.ask(t))
	r.stop(t, cmd)
	if _, err := os.Stat(r.socket()); err == nil {
		t.Error("it left the socket that it made")
	}
}

// A daemon that was killed leaves a socket that nobody answers on; commands do by
// themselves what it would have done, and the next daemon takes its place.
func TestAKilledDaemonIsReplaced(t *testing.T) {
	r := newDaemonRig(t)
	first := r.running(t, "")
	check(t, first.Process.Signal(syscall.SIGKILL))
	_ = first.Wait()
	if _, err := os.Stat(r.socket()); err != nil {
		t.Fatalf("it left no socket: %v", err)
	}
	if out, err := r.command("", "list").CombinedOutput(); err != nil {
		t.Errorf("list beside a dead daemon: %v\n%s", err, out)
	}
	second := r.running(t, "")
	wellOn(t, r.ask(t))
	check(t, second.Process.Signal(syscall.SIGTERM)) // as a service manager ends it
	if err := second.Wait(); err != nil {
		t.Errorf("told to stop it ended with %v", err)
	}
	if _, err := os.Stat(r.socket()); err == nil {
		t.Error("it left its socket")
	}
}
