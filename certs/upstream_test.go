package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// upstreamCA is a CA that a client trusts, of nobody's in particular.
func upstreamCA(t *testing.T, change func(*x509.Certificate)) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Public CA"},
		NotBefore: time.Now().Add(-day), NotAfter: time.Now().Add(day),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	change(template)
	cert, err := sign(template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return signer{cert, key}
}

// upstreamLeaf is a certificate for api.up.test by ca, nil for itself.
func upstreamLeaf(t *testing.T, ca *signer, change func(*x509.Certificate)) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "api.up.test"}, DNSNames: []string{"api.up.test"},
		NotBefore: time.Now().Add(-day), NotAfter: time.Now().Add(day),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	change(template)
	by := signer{template, key}
	if ca != nil {
		by = *ca
	}
	cert, err := sign(template, by.cert, &key.PublicKey, by.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// weak is a chain whose CA has an RSA key of 512 bits, which Go does not make.
func weak(t *testing.T) (roots *x509.CertPool, leaf *tls.Certificate) {
	t.Helper()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "api.up.test"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, in("leaf.csr"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}))
	writeFile(t, in("names"), []byte("subjectAltName=DNS:api.up.test\n"))
	for _, line := range [][]string{
		{"genrsa", "-out", in("ca.key"), "512"},
		{"req", "-x509", "-new", "-key", in("ca.key"), "-subj", "/CN=Weak CA", "-days", "1", "-out", in("ca.pem")},
		{"x509", "-req", "-in", in("leaf.csr"), "-CA", in("ca.pem"), "-CAkey", in("ca.key"), "-set_serial", "2", "-days", "1", "-extfile", in("names"), "-out", in("leaf.pem")},
	} {
		if out, err := exec.Command("openssl", line...).CombinedOutput(); err != nil {
			t.Fatalf("openssl %v (is it installed? see .ci/setup): %v\n%s", line, err, out)
		}
	}
	roots = x509.NewCertPool()
	if text, err := os.ReadFile(in("ca.pem")); err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	block, _ := pem.Decode(readFile(t, in("leaf.pem")))
	return roots, &tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}
}

// hello connects as we do to an upstream and sends a credential if the handshake
// succeeds. It returns what arrived, and the handshake's error.
func hello(t *testing.T, roots *x509.CertPool, server *tls.Config) (got []byte, err error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	arrived := make(chan []byte, 1)
	go func() {
		plain, err := ln.Accept()
		if err != nil {
			arrived <- []byte(err.Error())
			return
		}
		c := tls.Server(plain, server)
		buf := make([]byte, 64)
		n, _ := c.Read(buf)
		_ = c.Close()
		arrived <- buf[:n]
	}()
	one, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	config := Upstream(roots)
	config.ServerName = "api.up.test"
	c := tls.Client(one, config)
	if err = c.Handshake(); err == nil {
		_, err = c.Write([]byte("the credential"))
	}
	_ = one.Close()
	return <-arrived, err
}

func TestUpstreamsThatCannotProveWhoTheyAre_TL001(t *testing.T) {
	same := func(*x509.Certificate) {}
	ca := upstreamCA(t, same)
	narrow := upstreamCA(t, func(c *x509.Certificate) {
		c.PermittedDNSDomains, c.PermittedDNSDomainsCritical = []string{"other.test"}, true
	})
	leafCA := upstreamCA(t, func(c *x509.Certificate) { c.IsCA = false })
	ours := opened(t, Options{Clock: time.Now}, "api.up.test:443")
	roots := func(s signer) *x509.CertPool {
		pool := x509.NewCertPool()
		pool.AddCert(s.cert)
		return pool
	}
	weakRoots, weakLeaf := weak(t)
	for _, c := range []struct {
		name  string
		roots *x509.CertPool
		leaf  *tls.Certificate
		max   uint16
		good  bool
	}{
		{name: "a good one", roots: roots(ca), leaf: upstreamLeaf(t, &ca, same), good: true},
		{name: "self-signed", roots: roots(ca), leaf: upstreamLeaf(t, nil, same)},
		{name: "by an unknown CA", roots: roots(narrow), leaf: upstreamLeaf(t, &ca, same)},
		{name: "expired", roots: roots(ca), leaf: upstreamLeaf(t, &ca, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) })},
		{name: "not valid yet", roots: roots(ca), leaf: upstreamLeaf(t, &ca, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) })},
		{name: "of another host", roots: roots(ca), leaf: upstreamLeaf(t, &ca, func(c *x509.Certificate) { c.DNSNames = []string{"up.test"} })},
		{name: "the host in the common name only", roots: roots(ca), leaf: upstreamLeaf(t, &ca, func(c *x509.Certificate) { c.DNSNames = nil })},
		{name: "for clients only", roots: roots(ca), leaf: upstreamLeaf(t, &ca, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })},
		{name: "outside its CA's name constraints", roots: roots(narrow), leaf: upstreamLeaf(t, &narrow, same)},
		{name: "by what is no CA", roots: roots(ca), leaf: upstreamLeaf(t, &leafCA, same)},
		{name: "signed with SHA-1", roots: roots(ca), leaf: upstreamLeaf(t, &ca, func(c *x509.Certificate) { c.SignatureAlgorithm = x509.ECDSAWithSHA1 })},
		{name: "RSA of 512 bits", roots: weakRoots, leaf: weakLeaf},
		{name: "TLS 1.0 only", roots: roots(ca), leaf: upstreamLeaf(t, &ca, same), max: tls.VersionTLS10},
		{name: "TLS 1.1 only", roots: roots(ca), leaf: upstreamLeaf(t, &ca, same), max: tls.VersionTLS11},
		{name: "a root of ours, trusted", roots: verifyIn(ours), leaf: leaf(t, ours, "api.up.test:443")},
	} {
		got, err := hello(t, c.roots, &tls.Config{Certificates: []tls.Certificate{*c.leaf}, MinVersion: tls.VersionTLS10, MaxVersion: c.max})
		if c.good != (err == nil) || c.good != bytes.Equal(got, []byte("the credential")) || !c.good && len(got) != 0 {
			t.Errorf("%s: %v, and %q arrived", c.name, err, got)
		}
	}
}

func TestAnUpstreamWithACertificateOfOursIsRefused(t *testing.T) {
	c := newClock()
	a, b := open(t, newDir(t), c, "a.test:443"), open(t, newDir(t), c)
	foreign := &x509.Certificate{Raw: []byte{1}}
	if err := refuseOurs([][]*x509.Certificate{{foreign, foreign}}); err != nil {
		t.Errorf("a public chain: %v", err)
	}
	for name, chains := range map[string][][]*x509.Certificate{
		"none":            nil,
		"our root":        {{foreign, a.Root()}},
		"another kimbap":  {{foreign, b.Root()}},
		"second chain":    {{foreign}, {foreign, a.Root()}},
		"intermediate as": {{foreign, issuerOf(t, a, "a.test").cert}},
	} {
		if refuseOurs(chains) == nil {
			t.Errorf("%s passes", name)
		}
	}
	if IsOurs(nil) || IsOurs(foreign) {
		t.Error("a foreign certificate is ours")
	}
}
