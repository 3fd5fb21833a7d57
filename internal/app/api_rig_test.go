package app_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// api is a client of a REST API under test.
type api struct {
	base   string
	client *http.Client
}

// heard is one answer.
type heard struct {
	Status int
	Header http.Header
	Body   string
}

func newAPI(t testing.TB, k *apptest.Kimbap) *api {
	t.Helper()
	base := k.ServeAPI(t, app.APIOptions{})
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &api{base, &http.Client{Transport: transport, Timeout: 30 * time.Second}}
}

// ask sends one request; headers are pairs.
func (c *api) ask(t testing.TB, token, method, path, body string, headers ...string) heard {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	answer, err := c.client.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusSwitchingProtocols {
		return heard{Status: answer.StatusCode, Header: answer.Header} // what follows is a connection, and ends when it is idle for long
	}
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return heard{answer.StatusCode, answer.Header, string(data)}
}

// problem is what an answer says of a refusal.
func (h heard) problem(t testing.TB) runtime.Problem {
	t.Helper()
	var p runtime.Problem
	if err := json.Unmarshal([]byte(h.Body), &p); err != nil || h.Header.Get("Content-Type") != runtime.ProblemType {
		t.Fatalf("%d %s is no problem: %s", h.Status, h.Header.Get("Content-Type"), h.Body)
	}
	return p
}

// items are those of a page.
func (h heard) items(t testing.TB) (items []map[string]any, next string) {
	t.Helper()
	var page struct {
		Items []map[string]any
		Next  string `json:"next_cursor"`
	}
	if err := json.Unmarshal([]byte(h.Body), &page); err != nil || h.Status != http.StatusOK {
		t.Fatalf("%d %s", h.Status, h.Body)
	}
	return page.Items, page.Next
}

// tokenOf makes one of the default tenant.
func tokenOf(t testing.TB, k *apptest.Kimbap, g app.TokenGrant) (value, id string) {
	t.Helper()
	if g.Scopes == nil {
		g.Scopes = []string{"*"}
	}
	if g.TTL == 0 {
		g.TTL = time.Hour
	}
	if g.Agent == "" {
		g.Agent = "agent"
	}
	a := k.Open(t, "")
	secret, made, err := a.CreateToken(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	return secret.Reveal(), made.ID
}

// certificate writes one for 127.0.0.1 and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
}
