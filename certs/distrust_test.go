package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

// signedBy makes a certificate; with no parent one that signs itself.
func signedBy(t *testing.T, parent *tls.Certificate, c x509.Certificate) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if c.SerialNumber = big.NewInt(1); c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	if c.NotBefore.IsZero() {
		c.NotBefore = time.Now().Add(-time.Hour)
	}
	above, signer := &c, any(key)
	if parent != nil {
		above, signer = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, &c, above, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// shaken is the error of a client's handshake with a server that shows a certificate.
func shaken(t *testing.T, shows *tls.Certificate, roots *x509.CertPool) error {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{*shows}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	go func() {
		if c, err := ln.Accept(); err == nil {
			_ = c.(*tls.Conn).Handshake()
			_ = c.Close()
		}
	}()
	cfg := Upstream(roots)
	cfg.ServerName = "host.test"
	c, err := tls.Dial("tcp", ln.Addr().String(), cfg)
	if err == nil {
		_ = c.Close()
	}
	return err
}

// Each fault of a certificate has words of its own, and only a root that is missing here is
// mended by giving one.
func TestDistrustSaysWhichFaultItIs(t *testing.T) {
	host := []string{"host.test"}
	ca := signedBy(t, nil, x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	today := newClock()
	today.now.Store(time.Now().Unix()) // the client's
	ours := open(t, "", today, "host.test:443")
	roots := verifyIn(ours)
	roots.AddCert(ca.Leaf)
	for name, c := range map[string]struct {
		shows    *tls.Certificate
		why, fix string
	}{
		"expired":      {signedBy(t, ca, x509.Certificate{DNSNames: host, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(86400, 0)}), "valid from 1970-01-01 to 1970-01-02 only", "clock"},
		"another name": {signedBy(t, ca, x509.Certificate{DNSNames: []string{"other.test"}}), "for another name", "this name"},
		"self-signed":  {signedBy(t, nil, x509.Certificate{DNSNames: host}), "no authority", "upstream.ca_file"},
		"no server's":  {signedBy(t, ca, x509.Certificate{DNSNames: host, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}), "breaks a rule", "made anew"},
		"ours":         {leaf(t, ours, "host.test:443"), "kimbap", "another kimbap"},
	} {
		err := shaken(t, c.shows, roots)
		why, fix := Distrust(err)
		if !strings.Contains(why, c.why) || !strings.Contains(fix, c.fix) || strings.Contains(fix, "ca_file") != (name == "self-signed") {
			t.Errorf("%s: %q, %q of %v", name, why, fix, err)
		}
	}
	if why, fix := Distrust(net.ErrClosed); why != "" || fix != "" {
		t.Errorf("no certificate at all: %q, %q", why, fix)
	}
}
