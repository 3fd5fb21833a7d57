//go:build linux

package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// world is what the programs under test see of the internet: stubs that listen
// under the real names at port 443, with certificates of a CA that the system
// does not know. Only kimbap is told of it.
type world struct {
	dir   string
	roots string // the CA's certificate, a PEM file
	ca    *x509.Certificate
	key   *ecdsa.PrivateKey
}

func newWorld(t *testing.T) *world {
	t.Helper()
	needNamespace(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the world's CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(t, err)
	ca, err := x509.ParseCertificate(der)
	check(t, err)
	w := &world{dir: t.TempDir(), ca: ca, key: key}
	w.roots = filepath.Join(w.dir, "roots.pem")
	check(t, os.WriteFile(w.roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644))
	return w
}

// request is what an upstream got, as far as a client can be held to it: the
// order and the case of header fields are not kept.
type request struct {
	Method, Target, Host string
	Header               http.Header
	Length               int64 // -1 when the body came in chunks
	Body                 string
}

// upstream is one stub and its memory.
type upstream struct {
	host string
	cert tls.Certificate
	h2   atomic.Bool // whether it offers HTTP/2

	mu          sync.Mutex
	requests    []request
	connections int
}

// serve starts a stub for a host and ends it with the test.
func (w *world) serve(t *testing.T, host string, handler http.Handler) *upstream {
	t.Helper()
	u := &upstream{host: host, cert: w.leaf(t, host)}
	ln, err := net.Listen("tcp", net.JoinHostPort(addresses[host], "443"))
	check(t, err)
	server := &http.Server{
		Handler: u.recorded(handler),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				u.mu.Lock()
				u.connections++
				u.mu.Unlock()
			}
		},
	}
	server.TLSConfig = &tls.Config{
		Certificates: []tls.Certificate{u.cert},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			if u.h2.Load() {
				return nil, nil // the server's own, which offers it
			}
			return &tls.Config{Certificates: []tls.Certificate{u.cert}}, nil
		},
	}
	go func() { _ = server.ServeTLS(ln, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	return u
}

// servePlain starts a stub at port 80, without TLS, that always says the same.
func servePlain(t *testing.T, host, text string) {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(addresses[host], "80"))
	check(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })}
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(func() { _ = server.Close() })
}

func (w *world) leaf(t *testing.T, host string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.DNSNames, template.IPAddresses = nil, []net.IP{ip}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, w.ca, &key.PublicKey, w.key)
	check(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// longBody is from where on only the digest of a body is kept.
const longBody = 64 << 10

// recorded remembers each request before the handler sees it.
func (u *upstream) recorded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		text := string(body)
		if len(body) > longBody {
			text = fmt.Sprintf("%d bytes, sha256 %x", len(body), sha256.Sum256(body))
		}
		u.mu.Lock()
		u.requests = append(u.requests, request{r.Method, r.RequestURI, r.Host, r.Header.Clone(), r.ContentLength, text})
		u.mu.Unlock()
		// What a handler cannot tell apart from the wire, CGI can: it wants a length.
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		next.ServeHTTP(w, r)
	})
}

// take returns what came since the last take: requests and new connections.
func (u *upstream) take() ([]request, int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	requests, connections := u.requests, u.connections
	u.requests, u.connections = nil, 0
	return requests, connections
}

// demands answers 401 to everyone who does not bring the key.
func demands(field, value string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(field) != value {
			w.Header().Set("WWW-Authenticate", `Basic realm="stub"`)
			http.Error(w, `{"message":"Bad credentials"}`, http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// needNamespace leaves a test out where there is no network to run it in.
func needNamespace(t *testing.T) {
	t.Helper()
	if os.Getenv(namespaceVar) == "" {
		t.Skip("left out: it needs a network namespace (root on Linux)")
	}
}
