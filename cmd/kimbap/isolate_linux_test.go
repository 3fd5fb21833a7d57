package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// jailed is a user who runs programs isolated, before the stub of acme.
type jailed struct {
	*home
	api *upstream
	by  []string // the environment of who isolates: where its kimbap is elsewhere, not that of the home

	remote []string // words for run that lead to a bare proxy elsewhere, if that is where its kimbap is
}

// isolated runs a test as root, as a user who may do nothing, and as that user with
// the kimbap elsewhere; behind a bare proxy elsewhere as both.
func isolated(t *testing.T, test func(t *testing.T, j jailed)) {
	w := newWorld(t)
	api := w.serve(t, "api.acme.example", newAcme(t))
	for _, user := range []string{"root", "daemon", "elsewhere", "root, a proxy elsewhere", "daemon, a proxy elsewhere"} {
		t.Run(user, func(t *testing.T) {
			h := w.newHome(t)
			if !strings.HasPrefix(user, "root") {
				h.plainUser(t, w)
				check(t, os.Chmod(w.dir, 0o755))
				check(t, os.Chmod(filepath.Dir(h.user), 0o755))
			}
			service, err := os.ReadFile("testdata/clients/acme.yaml")
			check(t, err)
			h.write(t, filepath.Join(h.user, "acme.yaml"), service)
			h.kimbap(t, "", "service", "install", "./acme.yaml")
			h.kimbap(t, acmeKey+"\n", "link", "acme", "--no-check")
			j := jailed{home: h, api: api, by: h.env}
			switch {
			case user == "elsewhere":
				far, token := h.far(t)
				j.by = append(far, "KIMBAP_SERVER="+h.serves(t, "serve", "--proxy", "--listen", "127.0.0.1:0"), "KIMBAP_TOKEN_FILE="+token)
			case strings.HasSuffix(user, "proxy elsewhere"):
				far, token := h.far(t)
				pin := h.kimbap(t, "", "ca", "show", "-o", "json", "--jq", ".fingerprint").stdout
				j.by = far
				j.remote = []string{"--remote", h.serves(t, "proxy", "--listen", "127.0.0.1:0", "--auth", "token"), "--token-file", token, "--pin", strings.Trim(pin, "\"\n")}
			}
			api.take()
			test(t, j)
			h.holdsNoKey(t, acmeKey)
		})
	}
}

// far is an environment whose kimbap is elsewhere: it has a home with nothing in it
// that could be used, and a file with a token of this home.
func (h *home) far(t *testing.T) (env []string, tokenFile string) {
	t.Helper()
	token, far := filepath.Join(h.user, "token"), filepath.Join(h.user, "far")
	check(t, os.Mkdir(far, 0o700))
	h.owns(t, far)
	h.write(t, filepath.Join(far, "config.yaml"), nil)
	h.write(t, token, []byte(h.kimbap(t, "", "token", "create", "--agent", "far", "--scope", "*").stdout))
	check(t, os.Chmod(token, 0o600))
	return append(slices.Clone(h.env), "KIMBAP_HOME="+far), token
}

// run is the command that starts a program: isolated, or as how says.
func (j jailed) run(how string, argv ...string) []string {
	return append(append(append([]string{"kimbap", "run", how}, j.remote...), "--"), argv...)
}

func (j jailed) isolate(t *testing.T, argv ...string) result {
	t.Helper()
	return j.exec(t, j.by, "", j.run("--isolate", argv...)...)
}

// token is what is in the file for the kimbap elsewhere, "" where there is none.
func (j jailed) token(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(j.user, "token"))
	if !os.IsNotExist(err) {
		check(t, err)
	}
	return strings.TrimSpace(string(text))
}

// counted fails the test unless the run said at its end what became of the requests;
// a bare proxy elsewhere does not tell.
func (j jailed) counted(t *testing.T, r result, want string) {
	t.Helper()
	if has := strings.HasSuffix(r.stderr, want); has != (j.remote == nil) {
		t.Errorf("at the end %q, want %q", r.stderr, want)
	}
}

// file is a program of testdata/isolate, where every user can read it.
func (j jailed) file(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata/isolate", name))
	check(t, err)
	path := filepath.Join(j.user, name)
	j.write(t, path, data)
	return path
}

// acmeURL is a read that the service of acme has an action for.
const acmeURL = "https://api.acme.example/items/1/notes/a"

// gotKey fails the test unless the upstream got exactly one request, with the
// key.
func (j jailed) gotKey(t *testing.T) {
	t.Helper()
	requests, _ := j.api.take()
	if len(requests) != 1 || !slices.Equal(requests[0].Header.Values("Authorization"), []string{"Bearer " + acmeKey}) {
		t.Errorf("the upstream got %+v, want one request with the key", requests)
	}
}

// Clients that know of no proxy reach the API, with the key, and with no setting
// but the CA.
func TestIsolatedClientsNeedNoProxy(t *testing.T) {
	isolated(t, func(t *testing.T, j jailed) {
		classes := t.TempDir()
		check(t, os.Chmod(classes, 0o755))
		check(t, os.Chmod(filepath.Dir(classes), 0o755))
		noJava := compiled(j.file(t, "Plain.java"), classes)
		python, node := j.file(t, "plain.py"), j.file(t, "plain.cjs")
		for _, c := range []struct {
			name    string
			argv    []string
			missing error
		}{
			{"curl", []string{"env", "-u", "HTTPS_PROXY", "-u", "https_proxy", "-u", "ALL_PROXY", "-u", "all_proxy", "curl", "-sS", "-w", "%{http_code}", acmeURL}, installed("curl")},
			{"curl by the proxy", []string{"curl", "-sSv", "-w", "%{http_code}", acmeURL}, installed("curl")},
			{"urllib", []string{"/usr/bin/python3", python, "urllib", acmeURL}, library("urllib.request")},
			{"urllib3", []string{"/usr/bin/python3", python, "urllib3", acmeURL}, library("urllib3")},
			{"aiohttp", []string{"/usr/bin/python3", python, "aiohttp", acmeURL}, library("aiohttp")},
			{"node", []string{"env", "-u", "NODE_USE_ENV_PROXY", "node", node, acmeURL}, installed("node")},
			{"java", []string{"java", "-XX:TieredStopAtLevel=1", "-cp", classes, "Plain", acmeURL}, noJava},
		} {
			t.Run(c.name, func(t *testing.T) {
				needProgram(t, c.missing)
				r := j.isolate(t, c.argv...)
				if r.code != 0 || !strings.Contains(r.stdout, "200") || !strings.Contains(r.stdout, "/items/1/notes/a") {
					t.Errorf("exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
				}
				if c.name == "curl by the proxy" != strings.Contains(r.stderr, "CONNECT") {
					t.Errorf("curl went the wrong way\n%s", r.stderr)
				}
				j.counted(t, r, "kimbap: 1 request, 0 denied, 0 pending\n")
				j.gotKey(t)
			})
		}
	})
}

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
		for _, way := range []string{"tcp 127.0.0.1", "tcp 93.184.216.10", "udp 93.184.216.10", "tcp ::1", "https 93.184.216.10", "abstract", "socket in a file", "socket in /run", "agent", "keys", "kimbap's home", "descriptor"} {
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

// Every name has an address, whoever asks for what, and no question leaves the
// machine: who listens where the machine's own questions go hears none.
func TestIsolatedNamesStayInside(t *testing.T) {
	isolated(t, func(t *testing.T, j jailed) {
		b := newBystander(t)
		const ask = `import socket
for name in ["api.acme.example", "secret-in-a-name.tunnel.example", "api.acme.example", "localhost"]:
    print(name, sorted({a[4][0] for a in socket.getaddrinfo(name, 443, proto=socket.IPPROTO_TCP)}))
try:
    socket.getaddrinfo("bad name.example", 443)
    print("no such name")
except socket.gaierror:
    print("refused")
print(socket.gethostbyaddr("198.18.0.1")[0])`
		r := j.isolate(t, "/usr/bin/python3", "-c", ask)
		want := "api.acme.example ['198.18.0.1']\nsecret-in-a-name.tunnel.example ['198.18.0.2']\napi.acme.example ['198.18.0.1']\n" +
			"localhost ['127.0.0.1', '::1']\nrefused\napi.acme.example\n"
		if r.code != 0 || r.stdout != want {
			t.Errorf("exit code %d, got\n%s\nwant\n%s\n%s", r.code, r.stdout, want, r.stderr)
		}
		if n := b.reached.Load(); n != 0 {
			t.Errorf("%d questions left", n)
		}
	})
}

// The name of an address and what the program says to it must agree: the server
// name of TLS, the Host of plain HTTP.
func TestIsolatedNamesMustAgree(t *testing.T) {
	servePlain(t, "example.com", "the plain page")
	isolated(t, func(t *testing.T, j jailed) {
		direct := []string{"env", "-u", "HTTPS_PROXY", "-u", "https_proxy", "-u", "http_proxy", "-u", "ALL_PROXY", "-u", "all_proxy", "sh", "-c"}
		for _, c := range []struct{ name, script, want, not string }{
			{"tls", `a=$(getent hosts example.com | cut -d' ' -f1); curl -sS --resolve api.acme.example:443:$a ` + acmeURL, "", "/items/1"},
			{"plain", `curl -sS http://example.com/`, "the plain page", ""},
			{"plain, another host", `curl -sS -H 'Host: api.acme.example' http://example.com/`, "", "the plain page"},
			{"literal", `curl -sS -k https://93.184.216.10/items/1/notes/a`, "", "/items/1"},
		} {
			r := j.isolate(t, append(direct, c.script)...)
			if !strings.Contains(r.stdout, c.want) || c.not != "" && (strings.Contains(r.stdout, c.not) || r.code == 0 && r.stdout != "") {
				t.Errorf("%s: exit code %d, %q\n%s", c.name, r.code, r.stdout, r.stderr)
			}
		}
		if got, _ := j.api.take(); len(got) > 0 {
			t.Errorf("the API got %v", got)
		}
	})
}

// A refusal reaches the program, in the way that it speaks, and the audit.
func TestIsolatedRefusalsAreTold(t *testing.T) {
	servePlain(t, "example.com", "the plain page")
	isolated(t, func(t *testing.T, j jailed) {
		j.write(t, filepath.Join(j.dir, "policy.yaml"), []byte("version: 1\nrules:\n  - {name: no-strangers, match: {action: net.*}, then: deny}\n  - {name: rest, match: {action: \"*\"}, then: allow}\n"))
		direct := []string{"env", "-u", "HTTPS_PROXY", "-u", "https_proxy", "-u", "http_proxy", "-u", "ALL_PROXY", "-u", "all_proxy", "sh", "-c"}
		apptest.Eventually(t, "the policy, wherever kimbap is", func() bool {
			return strings.Contains(j.isolate(t, append(direct, `curl -sSi http://example.com/`)...).stdout, "HTTP/1.1 403")
		})
		r := j.isolate(t, append(direct, `curl -sSi http://example.com/; curl -sS https://example.com/; echo; curl -sS `+acmeURL)...)
		if !strings.Contains(r.stdout, "HTTP/1.1 403") || !strings.Contains(r.stdout, "no-strangers") || !strings.Contains(r.stdout, "/items/1/notes/a") || strings.Contains(r.stdout, "plain page") {
			t.Errorf("got\n%s\n%s", r.stdout, r.stderr)
		}
		if !strings.Contains(r.stderr, "alert") || !strings.Contains(r.stderr, "access denied") {
			t.Errorf("over TLS it was told %q", r.stderr)
		}
		j.counted(t, r, "kimbap: 3 requests, 2 denied, 0 pending\n")
		j.gotKey(t)
		if found := j.kimbap(t, "", "audit", "search", "-o", "json").stdout; strings.Count(found, "no-strangers") < 2 {
			t.Errorf("the audit has\n%s", found)
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

// What programs need is there: a folder for sockets, a folder for temporary files,
// terminals, devices, a name for the machine, sockets of their own.
func TestIsolatedProgramsHaveWhatTheyNeed(t *testing.T) {
	isolated(t, func(t *testing.T, j jailed) {
		folder := fmt.Sprintf("/run/kimbap-test-%d", j.uid)
		check(t, os.MkdirAll(folder+"/tmp", 0o755))
		j.write(t, folder+"/secret", []byte("of the session"))
		j.owns(t, folder, folder+"/tmp")
		j.by = append(j.by, "XDG_RUNTIME_DIR="+folder, "TMPDIR="+folder+"/tmp")
		const script = `set -e
			ls -A "$XDG_RUNTIME_DIR"; touch "$XDG_RUNTIME_DIR/mine"; mktemp | sed 's/tmp\..*//'
			echo x >/dev/null; head -c 8 /dev/urandom | wc -c; hostname | xargs getent hosts | cut -d' ' -f1
			/usr/bin/python3 -c 'if True:
				import os, pty, socket, threading, multiprocessing
				pty.openpty(); multiprocessing.Lock()
				s = socket.socket(socket.AF_UNIX); s.bind(os.environ["XDG_RUNTIME_DIR"] + "/own"); s.listen()
				socket.socket(socket.AF_UNIX).connect(os.environ["XDG_RUNTIME_DIR"] + "/own")
				s = socket.create_server(("127.0.0.1", 0)); socket.create_connection(s.getsockname())
				s = socket.create_server(("::1", 0), family=socket.AF_INET6); socket.create_connection(s.getsockname()[:2])'
			curl -sS -o /dev/null -w '%{http_code}' ` + acmeURL
		r := j.isolate(t, "sh", "-c", script)
		if want := "tmp\n" + folder + "/tmp/\n8\n127.0.0.1\n200"; r.code != 0 || r.stdout != want {
			t.Errorf("exit code %d, got %q, want %q\n%s", r.code, r.stdout, want, r.stderr)
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) != 2 {
			t.Errorf("outside there are now %v, %v", left, err)
		}
	})
}

// Where namespaces are refused nothing is started, and the error says what to do.
func TestIsolateSaysWhyItCannot(t *testing.T) {
	w := newWorld(t)
	h := w.newHome(t)
	h.plainUser(t, w)
	// In a user namespace that may have no more of them.
	none := `echo 0 >/proc/sys/user/max_user_namespaces && exec kimbap run --isolate -- echo started`
	r := h.exec(t, h.env, "", "unshare", "-Ur", "sh", "-c", none)
	if r.code != exitUsage || strings.Contains(r.stdout, "started") ||
		!strings.Contains(r.stderr, "error: this system does not let kimbap run isolate a program: ") || !strings.Contains(r.stderr, "fix:   sudo sysctl user.max_user_namespaces=15000") {
		t.Errorf("exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
	r = h.exec(t, h.env, "", "kimbap", "run", "--isolate", "--no-cover", "--", "echo", "started")
	if r.code != exitUsage || strings.Contains(r.stdout, "started") {
		t.Errorf("--no-cover: exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
}

// A service with a port of its own is reached there too; where a bare proxy elsewhere
// does not say which those are, by who knows of the proxy.
func TestIsolatedServicePorts(t *testing.T) {
	isolated(t, func(t *testing.T, j jailed) {
		const service = "name: odd\nversion: 1.0.0\ndescription: A port of its own\nbase_url: https://api.acme.example:8443\n" +
			"auth: {type: bearer, credential_ref: odd.token}\nactions:\n  get-note: {description: Read, method: GET, path: \"/items/{id:int}/notes/{n}\", idempotent: true, risk: {level: low}, args: [{name: id, type: integer, required: true}, {name: n, type: string, required: true}]}\n"
		j.write(t, filepath.Join(j.user, "odd.yaml"), []byte(service))
		j.kimbap(t, "", "service", "install", "./odd.yaml")
		j.kimbap(t, acmeKey+"\n", "link", "odd", "--no-check")
		direct := []string{"env", "-u", "HTTPS_PROXY", "-u", "https_proxy", "-u", "ALL_PROXY", "-u", "all_proxy"}
		if j.remote != nil {
			direct = []string{"env"}
		} else {
			apptest.Eventually(t, "the service, wherever kimbap is", func() bool {
				return strings.Contains(j.exec(t, j.by, "", "kimbap", "list").stdout, "odd")
			})
		}
		got := make(chan string, 1)
		ln, err := net.Listen("tcp", net.JoinHostPort(addresses["api.acme.example"], "8443"))
		check(t, err)
		server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("Authorization") })}
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{j.api.cert}}
		go func() { _ = server.ServeTLS(ln, "", "") }()
		defer server.Close()
		r := j.isolate(t, append(direct, "curl", "-sS", "-w", "%{http_code}", "https://api.acme.example:8443/items/1/notes/a")...)
		if r.stdout != "200" || <-got != "Bearer "+acmeKey {
			t.Errorf("exit code %d, %q\n%s", r.code, r.stdout, r.stderr)
		}
	})
}
