package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// bystander is what a program could reach on the machine: it listens in every
// way there is.
type bystander struct {
	port    int
	folder  string
	reached atomic.Int64
}

func newBystander(t *testing.T) *bystander {
	t.Helper()
	b := &bystander{folder: t.TempDir()}
	accept := func(ln net.Listener, err error) net.Listener {
		check(t, err)
		t.Cleanup(func() { _ = ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				b.reached.Add(1)
				_ = c.Close()
			}
		}()
		return ln
	}
	first := accept(net.Listen("tcp", ":0"))
	b.port = first.Addr().(*net.TCPAddr).Port
	accept(net.Listen("unix", fmt.Sprintf("@kimbap-test-%d", b.port)))
	check(t, os.MkdirAll("/run/kimbap-test", 0o755))
	for _, path := range []string{filepath.Join(b.folder, "socket"), "/run/kimbap-test/socket"} {
		accept(net.Listen("unix", path))
		check(t, os.Chmod(path, 0o777))
	}
	// Beside a file, so that the folder is not hidden as a whole: names that are more
	// than a line of letters, and a socket that is not called as it was bound, as ssh's.
	mixed := filepath.Join(b.folder, "mixed")
	check(t, os.Mkdir(mixed, 0o755))
	check(t, os.WriteFile(filepath.Join(mixed, "file"), nil, 0o600))
	for _, name := range []string{"latin-\xe9", "two\nlines", "bound"} {
		accept(net.Listen("unix", filepath.Join(mixed, name)))
		check(t, os.Chmod(filepath.Join(mixed, name), 0o777))
	}
	check(t, os.Rename(filepath.Join(mixed, "bound"), filepath.Join(mixed, "moved")))
	b.elsewhere(t, filepath.Join(mixed, "elsewhere"))
	check(t, os.Chmod(b.folder, 0o755))
	check(t, os.Chmod(filepath.Dir(b.folder), 0o755))
	for _, port := range []int{b.port, 53} {
		conn, err := net.ListenPacket("udp", fmt.Sprintf(":%d", port))
		check(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		go func() {
			buf := make([]byte, 2000)
			for {
				n, from, err := conn.ReadFrom(buf)
				if err != nil {
					return
				}
				b.reached.Add(1)
				_, _ = conn.WriteTo(buf[:n], from)
			}
		}()
	}
	return b
}

// elsewhere listens in a file, in another network of the machine: where a container is.
func (b *bystander) elsewhere(t *testing.T, path string) {
	t.Helper()
	const listen = `import os, socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o777); s.listen()
print("listens", flush=True)
while True: s.accept()`
	cmd := exec.Command("unshare", "-n", "/usr/bin/python3", "-c", listen, path)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	_, err = bufio.NewReader(out).ReadString('\n')
	check(t, err)
}

// An isolated program has no way out but the proxy; the same attempts, not
// isolated, find the ways that are there.
func TestIsolationHasNoOtherWayOut(t *testing.T) {
	needProgram(t, installed("ip", "unshare", "nsenter"))
	isolated(t, func(t *testing.T, j jailed) {
		b := newBystander(t)
		for path, text := range map[string]string{
			".ssh/id_test": "key", ".aws/credentials": "key", ".config/gh/hosts.yml": "key", ".netrc": "key",
		} {
			path = filepath.Join(j.user, path)
			check(t, os.MkdirAll(filepath.Dir(path), 0o755))
			j.write(t, path, []byte(text))
			j.owns(t, filepath.Dir(path))
		}
		j.by = append(j.by, "SSH_AUTH_SOCK="+b.folder+"/socket", "XDG_RUNTIME_DIR=/run/user/1")
		tries := []string{"/usr/bin/python3", j.file(t, "escape.py"), fmt.Sprint(b.port), fmt.Sprint(os.Getpid()), b.folder}
		// A descriptor that the shell left open reaches whoever it starts.
		shell := func(how string) result {
			return j.exec(t, j.by, "", append([]string{"sh", "-c", `exec 9</; exec "$@"`, "sh"}, j.run(how, tries...)...)...)
		}
		open := shell("--no-cover")
		for _, way := range []string{"tcp 127.0.0.1", "tcp 93.184.216.10", "udp 93.184.216.10", "tcp ::1", "https 93.184.216.10", "abstract", "socket in a file", "socket of a name in Latin-1", "socket of a name of two lines", "socket that was moved", "socket of another network", "socket in /run", "agent", "keys", "kimbap's home", "descriptor"} {
			if !strings.Contains(open.stdout, "open: "+way+"\n") {
				t.Errorf("not isolated, %s is not found: the attempts prove nothing\n%s\n%s", way, open.stdout, open.stderr)
			}
		}
		b.reached.Store(0)
		closed := shell("--isolate")
		if closed.code != 0 || closed.stdout != "end\n" {
			t.Errorf("isolated, exit code %d\n%s\n%s", closed.code, closed.stdout, closed.stderr)
		}
		if n := b.reached.Load(); n != 0 {
			t.Errorf("the machine was reached %d times", n)
		}
		if got, n := j.api.take(); len(got) > 0 || n > 1 { // one by IP address, not isolated
			t.Errorf("the API got %d connections and %v", n, got)
		}
	})
}

// An isolated program does not find the token that is shown for it elsewhere: not in
// its environment, nor in what the processes above it were started with, nor in the
// file, nor in anything that the proxy says.
func TestIsolatedProgramsDoNotHaveTheToken(t *testing.T) {
	servePlain(t, "example.com", "the plain page")
	isolated(t, func(t *testing.T, j jailed) {
		const look = `env; cat "$HOME/token" token; at=$$
			while [ "$at" -gt 1 ] 2>/dev/null; do
				tr '\0' '\n' </proc/$at/cmdline
				case "$(tr '\0' ' ' </proc/$at/cmdline)" in kimbap*|*/kimbap*) tr '\0' '\n' </proc/$at/environ; ls -l /proc/$at/fd/ ;; esac
				at=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$at/status)
			done
			curl -sSvi -X TRACE --proxy http://127.0.0.1:7788 http://example.com/
			curl -sSvi http://127.0.0.1:7788/kimbap/proxy.pac
			curl -sSv --proxy http://127.0.0.1:7788 http://example.com/ http://example.com/ ` + acmeURL + `
			echo; echo looked`
		j.by = append(j.by, "HOME="+j.user)
		r := j.exec(t, append(j.by, "KIMBAP_TOKEN="+j.token(t)), "", j.run("--isolate", "sh", "-c", look)...)
		if strings.Contains(r.stdout+r.stderr, "kmb_") || !strings.Contains(r.stdout, "looked") {
			t.Errorf("exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
		}
		if strings.Count(r.stdout, "the plain page") < 2 || !strings.Contains(r.stdout, "/items/1/notes/a") || !strings.Contains(r.stdout, "PROXY 127.0.0.1:") {
			t.Errorf("it was not served\n%s\n%s", r.stdout, r.stderr)
		}
		j.gotKey(t)
	})
}

// Who outlives kimbap has no network.
func TestIsolationEndsWithKimbap(t *testing.T) {
	isolated(t, func(t *testing.T, j jailed) {
		// The grandchild is in a session of its own, so that no signal finds it.
		const script = `exec 2>/dev/null; curl -sS -o /dev/null ` + acmeURL + ` && echo before
			setsid sh -c 'echo ready; while kill -0 '$PPID'; do sleep 0.02; done
				curl -m 5 -sS -o /dev/null ` + acmeURL + ` && echo by the proxy
				env -u HTTPS_PROXY -u https_proxy -u ALL_PROXY -u all_proxy curl -m 5 -sS -o /dev/null ` + acmeURL + ` && echo directly
				echo end' & wait`
		read, write, err := os.Pipe()
		check(t, err)
		defer read.Close()
		check(t, read.SetReadDeadline(time.Now().Add(deadline)))
		cmd := exec.Command("/usr/bin/env", j.run("--isolate", "sh", "-c", script)...)
		cmd.Env, cmd.Dir, cmd.Stdout = j.by, j.user, write
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: uint32(j.uid), Gid: uint32(j.uid)}}
		check(t, cmd.Start())
		check(t, write.Close())
		var said strings.Builder
		lines := bufio.NewScanner(read)
		for lines.Scan() && lines.Text() != "end" {
			fmt.Fprintln(&said, lines.Text())
			if lines.Text() == "ready" {
				check(t, cmd.Process.Kill())
				_ = cmd.Wait()
			}
		}
		if said.String() != "before\nready\n" || lines.Text() != "end" {
			t.Errorf("the program said %q", said.String())
		}
		_ = cmd.Process.Kill() // if it never came so far
		_ = cmd.Wait()
	})
}
