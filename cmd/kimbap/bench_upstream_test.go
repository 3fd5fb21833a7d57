//go:build bench

package main_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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
	"strconv"
	"strings"
	"testing"
	"time"
)

// eventEvery is the time between two events of one stream.
const eventEvery = 20 * time.Millisecond

// TestBenchUpstream is the process that answers: net/http over TLS with HTTP/1.1
// and HTTP/2, and in clear, both on a port of their own. It writes the
// root of its certificate to the file it is told.
func TestBenchUpstream(t *testing.T) {
	if os.Getenv("KIMBAP_BENCH") != "upstream" {
		t.Skip("a process of TestBench")
	}
	certificate, err := upstreamCertificate(os.Getenv("KIMBAP_BENCH_CA"))
	if err != nil {
		t.Fatal(err)
	}
	secure, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	clear, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// Two servers: one sets HTTP/2 up once, and not at all when its first listener
	// is the one in clear; with TLS it would then choose h2 and not speak it.
	plain := &http.Server{Handler: upstreamHandler()}
	server := &http.Server{Handler: upstreamHandler(), TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}
	fmt.Fprintf(os.Stderr, "listening on http://%s %s\n", secure.Addr(), clear.Addr())
	go func() { t.Error(plain.Serve(clear)) }()
	t.Fatal(server.ServeTLS(secure, "", ""))
}

// upstreamCertificate makes a certificate for all hosts of the benchmark, signed by a
// root as those of servers are, and writes the root to file as PEM.
func upstreamCertificate(file string) (tls.Certificate, error) {
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench root"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	rootKey, rootDER, err := certify(root, root, nil)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, der, err := certify(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "bench"}, DNSNames: []string{"*.bench.test"},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, root, rootKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	written := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, os.WriteFile(file, written, 0o600)
}

// certify makes a key and signs its certificate with that of parent; nil: with the key
// itself.
func certify(template, parent *x509.Certificate, with *ecdsa.PrivateKey) (key *ecdsa.PrivateKey, der []byte, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, err
	}
	if with == nil {
		with = key
	}
	der, err = x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, with)
	return key, der, err
}

// upstreamHandler answers /items/ID with a small object, /bytes/N with N bytes
// and /events with server-sent events that carry the moment they were sent.
func upstreamHandler() http.Handler {
	item := []byte(`{"id":"1","name":"` + strings.Repeat("x", 160) + `"}`)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(credentialField, strconv.FormatBool(r.Header.Get("Authorization") == "Bearer "+benchSecret))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(item)))
		_, _ = w.Write(item)
	})
	mux.HandleFunc("GET /slow/{id}", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(100 * time.Millisecond)
		_, _ = w.Write([]byte(`{"id":"slow"}`))
	})
	block := []byte(strings.Repeat("0123456789abcdef", 4<<10))
	mux.HandleFunc("GET /bytes/{n}", func(w http.ResponseWriter, r *http.Request) {
		left, err := strconv.Atoi(r.PathValue("n"))
		if err != nil || left < 0 {
			http.Error(w, "not a size", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(left))
		for err == nil && left > 0 {
			n := min(left, len(block))
			_, err = w.Write(block[:n])
			left -= n
		}
	})
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		out := http.NewResponseController(w)
		tick := time.NewTicker(eventEvery)
		defer tick.Stop()
		for err := out.Flush(); err == nil; err = out.Flush() {
			select {
			case <-r.Context().Done():
				return
			case <-tick.C:
			}
			_, _ = io.WriteString(w, "data: "+strconv.FormatInt(time.Now().UnixNano(), 10)+"\n\n")
		}
	})
	return mux
}
