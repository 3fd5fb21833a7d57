// Package notifytest holds what notifications are sent to in tests: an HTTPS
// server that answers as a test says, and an SMTP server that speaks the real
// protocol, STARTTLS and AUTH PLAIN included. Both listen on loopback, whatever
// name they are dialled by.
//
// It is imported by tests only. Start reading at [NewHTTP] and [NewSMTP].
package notifytest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Request is one that arrived.
type Request struct {
	Method, Host, Path string
	Header             http.Header
	Body               []byte
}

// HTTP is an HTTPS server.
type HTTP struct {
	Authority string // where it listens
	Trust     *tls.Config
	PEM       []byte // its certificate

	mu     sync.Mutex
	got    []Request
	answer func(n int, r Request) (status int, header http.Header, body string)
}

// NewHTTP starts one that ends with the test. It answers the n-th request, from
// 1, as answer says.
func NewHTTP(t testing.TB, answer func(n int, r Request) (int, http.Header, string)) *HTTP {
	t.Helper()
	h := &HTTP{answer: answer}
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(t)}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	h.Authority = server.Listener.Addr().String()
	h.Trust, h.PEM = trusting(server.TLS.Certificates[0])
	return h
}

// ServeHTTP implements [http.Handler].
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	req := Request{r.Method, r.Host, r.URL.RequestURI(), r.Header, body}
	h.mu.Lock()
	h.got = append(h.got, req)
	n := len(h.got)
	h.mu.Unlock()
	status, header, text := h.answer(n, req)
	for name, values := range header {
		w.Header()[name] = values
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// Requests returns what arrived so far.
func (h *HTTP) Requests() []Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Request{}, h.got...)
}

// Dial leads every authority to the server.
func (h *HTTP) Dial(ctx context.Context, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", h.Authority)
}

// trusting returns what trusts this certificate alone, and it in PEM.
func trusting(c tls.Certificate) (*tls.Config, []byte) {
	pool := x509.NewCertPool()
	pool.AddCert(c.Leaf)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, encode(c)
}
