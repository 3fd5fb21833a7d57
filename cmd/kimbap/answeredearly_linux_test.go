package main

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An upstream of HTTP/1.1 may answer an upload before it has read it, without a length. curl, which speaks HTTP/2
// to kimbap, goes on with the body and ends with the answer, as it does straight to the upstream:
// libcurl 7.88 waited for ever.
func TestCurlEndsWithAnAnswerThatCameEarly(t *testing.T) {
	needProgram(t, installed("curl"))
	const host = "api.acme.example"
	w := newWorld(t)
	ln, err := net.Listen("tcp", net.JoinHostPort(addresses[host], "443"))
	check(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_ = http.NewResponseController(w).Flush() // so that it says no length, at whose end libcurl 7.88 stops reading
		_, _ = io.WriteString(w, "early\n")
	})}
	secured := tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{w.leaf(t, host)}})
	go func() { _ = server.Serve(secured) }()
	t.Cleanup(func() { _ = server.Close() })
	h := w.newHome(t)
	check(t, os.WriteFile(filepath.Join(h.user, "up.bin"), blob(), 0o644))
	service, err := filepath.Abs("testdata/clients/acme.yaml")
	check(t, err)
	h.kimbap(t, "", "service", "install", service)
	h.kimbap(t, acmeKey+"\n", "link", "acme", "--no-check")
	r := h.run(t, "sh", "-c", `for n in 1 2 3 4 5; do curl -sS -m 20 -H 'Expect:' -w '%{http_code} %{http_version}\n' --data-binary @up.bin https://api.acme.example/blob || exit; done`)
	if want := strings.Repeat("early\n201 2\n", 5); r.stdout != want {
		t.Errorf("curl says %q, %s", r.stdout, r.stderr)
	}
}
