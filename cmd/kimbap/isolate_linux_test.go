package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

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

// What is under way when the program ends is in the count, and its outcome in the trail,
// though the network of the run goes with the program.
func TestAnIsolatedRunEndsWithAllOutcomes(t *testing.T) {
	needProgram(t, installed("curl"))
	isolated(t, func(t *testing.T, j jailed) {
		r := j.isolate(t, "sh", "-c", "f=$(mktemp); curl -sSN https://api.acme.example/stream >$f & until test -s $f; do sleep 0.05; done; kill -9 $!; rm $f")
		j.counted(t, r, "kimbap: 1 request, 0 denied, 0 pending\n")
		j.gotKey(t)
		trail := ""
		for range 100 { // a kimbap elsewhere goes on, and has it a little later
			if trail = j.kimbap(t, "", "audit", "tail").stdout; strings.Contains(trail, "outcome ") {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if strings.Count(trail, "outcome ") != 1 || strings.Contains(trail, " unknown ") {
			t.Errorf("the trail has no outcome:\n%s", trail)
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

// However many sockets the machine has, a program is isolated from them: their names
// are longer together than an argument may be.
func TestIsolatedFromManySockets(t *testing.T) {
	w := newWorld(t)
	h := w.newHome(t)
	h.plainUser(t, w)
	folder, err := os.MkdirTemp("", "kimbap-"+strings.Repeat("d", 40)) // the path of a socket must be short
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	check(t, os.Chmod(folder, 0o755))
	check(t, os.WriteFile(filepath.Join(folder, "file"), nil, 0o600))
	for i := range 1600 {
		ln, err := net.Listen("unix", filepath.Join(folder, fmt.Sprintf("socket-of-many-%08d", i)))
		check(t, err)
		defer ln.Close()
	}
	r := h.exec(t, h.env, "", "kimbap", "run", "--isolate", "--", "echo", "started")
	if r.code != 0 || r.stdout != "started\n" {
		t.Errorf("exit code %d, %q\n%s", r.code, r.stdout, r.stderr)
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
