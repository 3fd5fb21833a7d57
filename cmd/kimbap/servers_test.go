//go:build servers && linux

package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
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

// `make servers`: what real servers answer is the same through kimbap as without, in HTTP/1.1
// and HTTP/2, also where they answer before a body has ended.

// servers stand before one application. DIR is a folder with cert.pem and both.pem (with the
// key) and files to serve in www, ADDR where to listen, APP the application.
var servers = map[string]struct {
	config string
	start  []string
}{
	"nginx": {`daemon off; pid DIR/pid; error_log DIR/log; events {}
		http { access_log off; types { text/plain txt; } gzip on; gzip_types text/plain; keepalive_requests 7; http2_max_concurrent_streams 3;
			client_body_temp_path DIR/body; proxy_temp_path DIR/temp;
			server { listen ADDR ssl http2; ssl_certificate DIR/both.pem; ssl_certificate_key DIR/both.pem; root DIR/www;
				client_max_body_size 2m; location /app/ { proxy_pass http://APP/; proxy_buffering off; } } }`,
		[]string{"nginx", "-c", "DIR/config"}},
	"apache2": {`ServerRoot DIR
		PidFile DIR/pid
		ErrorLog DIR/log
		Listen ADDR
		LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
		LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
		LoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so
		LoadModule http2_module /usr/lib/apache2/modules/mod_http2.so
		LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so
		LoadModule proxy_http_module /usr/lib/apache2/modules/mod_proxy_http.so
		Protocols h2 http/1.1
		MaxKeepAliveRequests 7
		DocumentRoot DIR/www
		SSLEngine on
		SSLCertificateFile DIR/both.pem
		ProxyPass /app/ http://APP/ flushpackets=on`,
		[]string{"apache2", "-f", "DIR/config", "-D", "FOREGROUND"}},
	"caddy": {`{
			admin off
			auto_https off
			servers {
				protocols h1 h2
			}
		}
		https://api.github.com {
			bind HOST
			tls DIR/cert.pem DIR/both.pem
			handle_path /app/* {
				reverse_proxy APP {
					flush_interval -1
				}
			}
			encode gzip
			root * DIR/www
			file_server
		}`,
		[]string{"caddy", "run", "--adapter", "caddyfile", "--config", "DIR/config"}},
	"haproxy": {`defaults
		mode http
		timeout client 10s
		timeout server 10s
		timeout connect 10s
	frontend front
		bind ADDR ssl crt DIR/both.pem alpn h2,http/1.1
		http-request replace-path /app/(.*) /\1
		default_backend app
	backend app
		http-reuse never
		server one APP
	`,
		[]string{"haproxy", "-f", "DIR/config"}},
}

// exchanges are curl's arguments. Those of files are for servers that have some.
var exchanges = []struct {
	path string
	args []string
}{
	{"/text.txt", nil}, {"/text.txt", []string{"-I"}}, {"/text.txt", []string{"--compressed"}}, {"/text.txt", []string{"-r", "100-1999"}},
	{"/text.txt", []string{"-r", "0-9,100-109"}}, {"/text.txt", []string{"-r", "99999999-"}}, {"/text.txt", []string{"-H", "If-None-Match: *"}},
	{"/empty.txt", nil}, {"/missing", nil}, {"/%74ext.txt?a=b%20c", nil},
	{"/app/echo?x=%2F", nil}, {"/app/echo", []string{"-d", "x=1"}}, {"/app/echo", []string{"--data-binary", "@small"}},
	{"/app/echo", []string{"-T", "small"}}, {"/app/echo", []string{"-H", "Transfer-Encoding: chunked", "-T", "small"}},
	{"/app/echo", []string{"-X", "DELETE"}}, {"/app/echo", []string{"-H", "Expect: 100-continue", "-d", "y"}}, {"/app/echo", []string{"-I"}},
	{"/app/early", []string{"--data-binary", "@large"}}, {"/app/early", []string{"-H", "Expect:", "--data-binary", "@large"}},
	{"/app/early", []string{"-T", "large"}}, {"/app/events", []string{"-N"}}, {"/app/trailers", nil}, {"/app/broken", nil},
	{"/app/none", nil}, {"/app/heads", nil},
}

// application is what the servers stand before.
func application(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/echo":
		digest := sha256.New()
		n, err := io.Copy(digest, r.Body)
		fmt.Fprintf(w, "%s %s %d %x %v\n", r.Method, r.RequestURI, n, digest.Sum(nil), err)
		fmt.Fprintln(w, r.Header["Authorization"], r.Header["User-Agent"], r.Header["Accept"], r.Header["Content-Type"])
	case "/early":
		c := http.NewResponseController(w)
		_ = c.EnableFullDuplex()
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		fmt.Fprintln(w, "too large")
		_ = c.Flush()
		_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		_, _ = io.Copy(io.Discard, r.Body) // else the server may break off before it has the answer
	case "/events":
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range 5 {
			fmt.Fprintf(w, "data: %d\n\n", n)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	case "/trailers":
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprintln(w, "body")
		w.Header().Set("X-Sum", "42")
	case "/broken":
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, "half")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(100 * time.Millisecond) // the server passes this on
		panic(http.ErrAbortHandler)
	case "/slow":
		time.Sleep(100 * time.Millisecond)
	case "/none":
		w.WriteHeader(http.StatusNoContent)
	case "/heads":
		for n := range 60 {
			w.Header().Add("X-Many", fmt.Sprint(n, strings.Repeat("v", 200)))
		}
	}
}

const anyOfGitHub = `name: any
version: 1.0.0
description: Whatever it is
adapter: http
base_url: https://api.github.com
auth: {type: bearer, credential_ref: any.token}
actions:
  read: {description: Reads, method: [GET, HEAD], path: /**, idempotent: true, risk: {level: low}}
  write: {description: Writes, method: [POST, PUT, DELETE], path: /**, risk: {level: low}}
`

func TestRealServers(t *testing.T) {
	w := newWorld(t)
	app, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	server := &http.Server{Handler: http.HandlerFunc(application)}
	go func() { _ = server.Serve(app) }()
	t.Cleanup(func() { _ = server.Close() })
	for name := range servers {
		t.Run(name, func(t *testing.T) {
			needProgram(t, installed(name, "curl"))
			w.behind(t, name, app.Addr().String())
			h := w.newHome(t)
			check(t, os.MkdirAll(filepath.Join(h.dir, "services"), 0o700))
			check(t, os.WriteFile(filepath.Join(h.dir, "services", "any.yaml"), []byte(anyOfGitHub), 0o600))
			check(t, os.WriteFile(filepath.Join(h.user, "small"), bytes.Repeat([]byte("small\n"), 20_000), 0o600))
			check(t, os.WriteFile(filepath.Join(h.user, "large"), bytes.Repeat([]byte("large\n"), 1_000_000), 0o600))
			h.kimbap(t, keys["github"]+"\n", "link", "any", "--no-check")
			env := h.proxied(t)
			for _, e := range exchanges {
				if name == "haproxy" && !strings.HasPrefix(e.path, "/app/") {
					continue // it serves no files
				}
				versions := []string{"--http1.1", "--http2"}
				var direct []result
				for _, version := range versions {
					r := h.curl(t, h.env, append([]string{version, "-H", "Authorization: Bearer " + keys["github"], "--cacert", w.roots}, e.args...), e.path)
					if r.code == 0 || e.path == "/app/broken" {
						direct = append(direct, r)
					} else {
						t.Logf("%s %q %s fails without kimbap too: %s", e.path, e.args, version, r.stderr)
					}
				}
				for _, version := range versions { // what kimbap and the server speak is theirs to choose
					through := h.curl(t, env, append([]string{version}, e.args...), e.path)
					if !slices.ContainsFunc(direct, through.like) {
						t.Errorf("%s %q %s\nthrough: %d %s%s\ndirect: %v", e.path, e.args, version, through.code, through.stdout, through.stderr, direct)
					}
				}
			}
			burst := h.exec(t, env, "", "curl", "-sS", "-m", "20", "--http2", "-Z", "--parallel-max", "60", "-w", "%{http_code}\n", "https://api.github.com/app/slow?[1-60]")
			if n := strings.Count(burst.stdout, "200\n"); n != 60 {
				t.Errorf("of 60 requests at a time %d were answered\n%s%s", n, burst.stdout, burst.stderr)
			}
		})
	}
}

// behind starts a server for the length of the test.
func (w *world) behind(t *testing.T, name, app string) {
	t.Helper()
	dir := t.TempDir()
	for parent := dir; parent != os.TempDir() && parent != "/"; parent = filepath.Dir(parent) {
		check(t, os.Chmod(parent, 0o755)) // some servers serve as another user
	}
	check(t, os.Mkdir(filepath.Join(dir, "www"), 0o755))
	var text bytes.Buffer
	for n := range 50_000 {
		fmt.Fprintln(&text, n)
	}
	cert := w.leaf(t, "api.github.com")
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	check(t, err)
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	host := addresses["api.github.com"]
	fill := strings.NewReplacer("DIR", dir, "ADDR", net.JoinHostPort(host, "443"), "HOST", host, "APP", app)
	for file, data := range map[string][]byte{
		"www/text.txt": text.Bytes(), "www/empty.txt": nil, "cert.pem": certPEM, "both.pem": slices.Concat(certPEM, keyPEM),
		"config": []byte(fill.Replace(servers[name].config) + "\n"),
	} {
		check(t, os.WriteFile(filepath.Join(dir, file), data, 0o644))
		old := time.Now().Add(-time.Hour) // of a file that is just being changed an entity tag is weak
		check(t, os.Chtimes(filepath.Join(dir, file), old, old))
	}
	var argv []string
	for _, arg := range servers[name].start {
		argv = append(argv, fill.Replace(arg))
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &said, &said, append(os.Environ(), "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	for end := time.Now().Add(deadline); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", net.JoinHostPort(host, "443"))
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(end) {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait()
			t.Fatalf("%s does not listen\n%s", name, said.String())
		}
	}
}

// like reports whether two exchanges ended alike: either broke off, or both have the same answer.
func (r result) like(other result) bool {
	return (r.code == 0) == (other.code == 0) && (r.code != 0 || r.stdout == other.stdout)
}

// ownFields are of one connection, or of the moment.
var ownFields = []string{"date", "connection", "keep-alive", "transfer-encoding", "via", "alt-svc", "upgrade", "vary"}

// curl is one exchange. Its stdout is the status, the size and digest of the body, and the
// fields in the order of their names.
func (h *home) curl(t *testing.T, env, args []string, path string) result {
	t.Helper()
	argv := append([]string{"curl", "-sS", "-m", "20", "--path-as-is", "--suppress-connect-headers", "-D", "head", "-o", "body", "-w", "%{http_code} "}, args...)
	check(t, os.WriteFile(filepath.Join(h.user, "body"), nil, 0o600))
	r := h.exec(t, env, "", append(argv, "https://api.github.com"+path)...)
	body, err := os.ReadFile(filepath.Join(h.user, "body"))
	check(t, err)
	head, err := os.ReadFile(filepath.Join(h.user, "head"))
	check(t, err)
	if slices.Contains(args, "-I") {
		body = nil // curl puts the head there
	}
	body = bytes.ReplaceAll(body, []byte(keys["github"]), bytes.Repeat([]byte("*"), len(keys["github"]))) // as kimbap does
	var fields []string
	for line := range strings.SplitSeq(string(head), "\r\n") {
		field, value, found := strings.Cut(line, ":")
		if field = strings.ToLower(field); found && !slices.Contains(ownFields, field) && !strings.Contains(value, "multipart/byteranges") {
			fields = append(fields, field+":"+strings.ToLower(value))
		}
	}
	slices.Sort(fields)
	if bytes.Contains(body, []byte("Content-range")) || bytes.Contains(body, []byte("Content-Range")) {
		body = bytes.Join(bytes.FieldsFunc(body, func(r rune) bool { return r == '\n' })[2:4], nil) // the boundary is a new one each time
	}
	r.stdout += fmt.Sprintf("%d %x\n%s\n", len(body), sha256.Sum256(body), strings.Join(fields, "\n"))
	return r
}
