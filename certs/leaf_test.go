package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestALeafIsGoodForItsHostAlone(t *testing.T) {
	c := newClock()
	cases := []struct{ authority, name, not string }{
		{"api.github.com:443", "api.github.com", "github.com"},
		{"localhost:8443", "localhost", "a.localhost"},
		{"xn--bcher-kva.example:443", "xn--bcher-kva.example", "example"},
		{"192.0.2.7:443", "192.0.2.7", "192.0.2.8"},
		{"[2001:db8::1]:443", "2001:db8::1", "2001:db8::2"},
		{strings.Repeat("a", 63) + "." + strings.Repeat("b", 63) + ".test:443", strings.Repeat("a", 63) + "." + strings.Repeat("b", 63) + ".test", "test"},
	}
	var hosts []string
	for _, k := range cases {
		hosts = append(hosts, k.authority)
	}
	a := open(t, newDir(t), c, hosts...)
	for _, k := range cases {
		got := leaf(t, a, k.authority)
		if err := verify(a, got, k.name, c.Now()); err != nil {
			t.Errorf("%s: %v", k.authority, err)
		}
		if err := verify(a, got, k.not, c.Now()); err == nil {
			t.Errorf("%s is good for %s too", k.authority, k.not)
		}
		l := got.Leaf
		if len(l.DNSNames)+len(l.IPAddresses) != 1 || l.IsCA || len(l.ExtKeyUsage) != 1 || l.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth || l.NotAfter.Sub(l.NotBefore) > 10*day {
			t.Errorf("%s: %v %v until %v", k.authority, l.DNSNames, l.IPAddresses, l.NotAfter)
		}
		inter, err := x509.ParseCertificate(got.Certificate[1])
		if err != nil || !inter.MaxPathLenZero || inter.MaxPathLen != 0 || inter.KeyUsage != x509.KeyUsageCertSign || l.NotAfter.After(inter.NotAfter) || inter.NotAfter.Sub(inter.NotBefore) > 30*day || !IsOurs(inter) {
			t.Errorf("%s: intermediate %v %v", k.authority, inter, err)
		}
		if err := verify(a, got, k.name, c.Now().Add(-23*time.Hour)); err != nil {
			t.Errorf("%s: a client with a slow clock refuses it: %v", k.authority, err)
		}
	}
}

func TestOpenSSLAgrees(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Fatalf("this test needs the openssl command: %v", err)
	}
	a := opened(t, Options{Dir: newDir(t), Sealer: newBox(t, 1), Clock: time.Now}, "api.github.com:443")
	got := leaf(t, a, "api.github.com:443")
	file := func(name string, der []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, encodeCertificate(der), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	leafFile, inter := file("leaf.pem", got.Certificate[0]), file("inter.pem", got.Certificate[1])
	check := func(root, host string) (string, error) {
		out, err := exec.Command("openssl", "verify", "-x509_strict", "-no-CAfile", "-no-CApath", "-no-CAstore", "-CAfile", root, "-untrusted", inter,
			"-purpose", "sslserver", "-verify_hostname", host, leafFile).CombinedOutput()
		return string(out), err
	}
	for _, root := range []string{a.CAFile(), a.BundleFile()} {
		if out, err := check(root, "api.github.com"); err != nil {
			t.Errorf("openssl with %s: %s", filepath.Base(root), out)
		}
	}
	if out, err := check(a.CAFile(), "github.com"); err == nil {
		t.Errorf("openssl accepts another host: %s", out)
	}
	if out, err := check(open(t, newDir(t), newClock()).CAFile(), "api.github.com"); err == nil {
		t.Errorf("openssl accepts another root: %s", out)
	}
}

func TestClientsOfTheRootShakeHandsWithItsLeaves(t *testing.T) {
	for _, dir := range []string{newDir(t), ""} {
		a := opened(t, Options{Dir: dir, Sealer: newBox(t, 1), Clock: time.Now}, "api.test:443")
		client, server := net.Pipe()
		served := make(chan error, 1)
		go func() {
			cert, err := a.Leaf("api.test:443")
			if err == nil {
				conn := tls.Server(server, &tls.Config{Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS12})
				_, err = io.WriteString(conn, "hello")
				err = errors.Join(err, conn.Close())
			}
			served <- err
		}()
		conn := tls.Client(client, &tls.Config{RootCAs: verifyIn(a), ServerName: "api.test", MinVersion: tls.VersionTLS12})
		text, err := io.ReadAll(conn)
		if err != nil || string(text) != "hello" {
			t.Errorf("dir %q: %q %v", dir, text, err)
		}
		if err := refuseOurs(conn.ConnectionState().VerifiedChains); !errors.Is(err, errOurs) {
			t.Errorf("our own chain is taken for an upstream's: %v", err)
		}
		_ = conn.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

func TestLeafNamesMustBeExact(t *testing.T) {
	a := opened(t, Options{Sealer: newBox(t, 1), Clock: newClock().Now, AnyHost: true})
	for _, authority := range []string{
		"", ":443", "a.test", "*.test:443", "A.test:443", "a.test.:443", "a..test:443", ".:443", "a b:443", "a\x00.test:443", "bücher.test:443",
		"[fe80::1%eth0]:443", "[::ffff:1.2.3.4]:443", "[2001:DB8::1]:443", "a,b:443", "a.test:443:443", strings.Repeat("a", 64) + ".test:443",
		strings.Repeat("a.", 127) + "aa:443",
	} {
		if got, err := a.Leaf(authority); err == nil {
			t.Errorf("%q gets a certificate for %v %v", authority, got.Leaf.DNSNames, got.Leaf.IPAddresses)
		}
	}
}

func FuzzLeaf(f *testing.F) {
	for _, seed := range []string{"a.test:443", "[::1]:1", "1.2.3.4:1", "*.a:1", "A:1", "[::1%x]:1", "a:b:c", "\xff:1"} {
		f.Add(seed)
	}
	c := newClock()
	a := opened(f, Options{Sealer: newBox(f, 1), Clock: c.Now, AnyHost: true})
	f.Fuzz(func(t *testing.T, authority string) {
		got, err := a.Leaf(authority)
		if err != nil {
			return
		}
		host, _, _ := net.SplitHostPort(authority)
		if len(got.Leaf.DNSNames)+len(got.Leaf.IPAddresses) != 1 || verify(a, got, host, c.Now()) != nil {
			t.Errorf("%q gets %v %v", authority, got.Leaf.DNSNames, got.Leaf.IPAddresses)
		}
	})
}
