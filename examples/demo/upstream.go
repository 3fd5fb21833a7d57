// Command demo is the API that the demonstration calls: HTTPS on loopback, with
// a certificate of its own authority, and a bearer token that every request
// must carry. It knows nothing of kimbap.
//
// It writes ca.pem and port into the folder given as its argument.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: demo FOLDER TOKEN")
	}
	dir, token := os.Args[1], os.Args[2]
	cert, authority, err := certificate("api.demo.test", "plain.demo.test")
	if err != nil {
		log.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), authority, 0o600); err != nil {
		log.Fatal(err)
	}
	port := strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
	if err := os.WriteFile(filepath.Join(dir, "port"), []byte(port), 0o600); err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: &notes{token: token, texts: map[int]string{1: "buy rice", 2: "buy seaweed"}, next: 3}, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{cert}})))
}

// notes is the API: GET and POST /notes, GET and DELETE /notes/ID, GET /whoami.
type notes struct {
	token string
	mu    sync.Mutex
	texts map[int]string
	next  int
}

func (n *notes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Host == "plain.demo.test" {
		fmt.Fprintln(w, "a host that kimbap has no key for")
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+n.token {
		reply(w, http.StatusUnauthorized, map[string]string{"error": "this API wants its token"})
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /whoami", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]string{"login": "demo"})
	})
	mux.HandleFunc("GET /notes", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, n.texts)
	})
	mux.HandleFunc("POST /notes", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Text string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Text == "" {
			reply(w, http.StatusBadRequest, map[string]string{"error": "text is missing"})
			return
		}
		n.texts[n.next] = in.Text
		n.next++
		reply(w, http.StatusCreated, map[string]any{"id": n.next - 1, "text": in.Text})
	})
	mux.HandleFunc("GET /notes/{id}", n.one)
	mux.HandleFunc("DELETE /notes/{id}", n.one)
	mux.ServeHTTP(w, r)
}

func (n *notes) one(w http.ResponseWriter, r *http.Request) {
	id, _ := strconv.Atoi(r.PathValue("id"))
	text, ok := n.texts[id]
	if !ok {
		reply(w, http.StatusNotFound, map[string]string{"error": "no such note"})
		return
	}
	if r.Method == http.MethodDelete {
		delete(n.texts, id)
	}
	reply(w, http.StatusOK, map[string]any{"id": id, "text": text, "deleted": r.Method == http.MethodDelete})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// certificate makes an authority and one certificate for the names.
func certificate(names ...string) (tls.Certificate, []byte, error) {
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "demo upstream CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, &rootKey.PublicKey, rootKey)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, &key.PublicKey, rootKey)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	pemRoot := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER})
	return tls.Certificate{Certificate: [][]byte{leafDER, rootDER}, PrivateKey: key}, pemRoot, nil
}
