//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// registry is a registry of npm's with one package in it.
func registry(t *testing.T, host string) http.Handler {
	tarball := packed(t, map[string]string{
		"package/package.json": `{"name":"door-hinge","version":"1.2.3","main":"index.js"}`,
		"package/index.js":     `module.exports = 'it squeaks'`,
	})
	digest := sha512.Sum512(tarball)
	document, err := json.Marshal(map[string]any{
		"name": "door-hinge", "dist-tags": map[string]string{"latest": "1.2.3"},
		"versions": map[string]any{"1.2.3": map[string]any{
			"name": "door-hinge", "version": "1.2.3", "main": "index.js",
			"dist": map[string]string{
				"tarball":   "https://" + host + "/door-hinge/-/door-hinge-1.2.3.tgz",
				"integrity": "sha512-" + base64.StdEncoding.EncodeToString(digest[:]),
			},
		}},
	})
	check(t, err)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/-/whoami":
			fmt.Fprint(w, `{"username":"octo"}`)
		case "/door-hinge":
			_, _ = w.Write(document)
		case "/door-hinge/-/door-hinge-1.2.3.tgz":
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = w.Write(tarball)
		case "/-/npm/v1/security/advisories/bulk":
			fmt.Fprint(w, `{}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{}`)
		}
	})
}

// packed makes a .tgz.
func packed(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	archive := tar.NewWriter(z)
	for name, text := range files {
		check(t, archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), ModTime: time.Unix(0, 0)}))
		_, err := archive.Write([]byte(text))
		check(t, err)
	}
	check(t, archive.Close())
	check(t, z.Close())
	return b.Bytes()
}

// openAI answers a chat with a stream, and the list of models for `link`.
func openAI() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"object":"list","data":[{"id":"gpt-door"}]}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, word := range []string{"knock", " ", "knock"} {
			fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", word)
			_ = http.NewResponseController(w).Flush()
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	})
}

// anthropic answers one message, and the list of models for `link`.
func anthropic() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/v1/models" {
			fmt.Fprint(w, `{"data":[{"id":"claude-door"}]}`)
			return
		}
		fmt.Fprint(w, `{"type":"message","role":"assistant","content":[{"type":"text","text":"who is there?"}]}`)
	})
}

// sshServer is the system's sshd with keys of its own. It returns the port and
// the folder that holds the client's key and the known host.
func sshServer(t *testing.T) (port, keys string) {
	t.Helper()
	dir, keys := t.TempDir(), t.TempDir()
	keygen := func(file string) {
		out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", file).CombinedOutput()
		if err != nil {
			t.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
	}
	keygen(filepath.Join(dir, "host"))
	keygen(filepath.Join(keys, "id"))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	_, port, err = net.SplitHostPort(ln.Addr().String())
	check(t, err)
	check(t, ln.Close()) // sshd cannot take a listener; nobody else is in this network
	config := strings.Join([]string{
		"Port " + port, "ListenAddress 127.0.0.1", "HostKey " + filepath.Join(dir, "host"), "PidFile none",
		"AuthorizedKeysFile " + filepath.Join(keys, "id.pub"), "StrictModes no", "UsePAM no",
		"PermitRootLogin prohibit-password", "PasswordAuthentication no", "ForceCommand echo welcome",
	}, "\n")
	check(t, os.WriteFile(filepath.Join(dir, "config"), []byte(config+"\n"), 0o600))
	host, err := os.ReadFile(filepath.Join(dir, "host.pub"))
	check(t, err)
	check(t, os.WriteFile(filepath.Join(keys, "known"), []byte("[127.0.0.1]:"+port+" "+string(host)), 0o644))

	cmd := exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", filepath.Join(dir, "config"))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("sshd: %s", said.String())
		}
	})
	waitFor(t, "127.0.0.1:"+port)
	return port, keys
}

// waitFor returns when something listens there.
func waitFor(t *testing.T, address string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			return
		}
	}
	t.Fatalf("nothing listens at %s", address)
}
