package certs

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// box is a real AEAD, so that a changed file or another key fails as it will
// in the vault.
type box struct{ cipher.AEAD }

func newBox(t testing.TB, key byte) box {
	t.Helper()
	block, err := aes.NewCipher(bytes.Repeat([]byte{key}, 32))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	return box{aead}
}

func (b box) Seal(plain, aad []byte) ([]byte, error) { return b.AEAD.Seal(nil, nil, plain, aad), nil }
func (b box) Open(sealed, aad []byte) ([]byte, error) {
	return b.AEAD.Open(nil, nil, sealed, aad)
}

// clock is a time that the test moves.
type clock struct{ now atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.now.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Unix())
	return c
}

func (c *clock) Now() time.Time      { return time.Unix(c.now.Load(), 0).UTC() }
func (c *clock) Add(d time.Duration) { c.now.Add(int64(d / time.Second)) }
func newDir(t testing.TB) string     { return filepath.Join(t.TempDir(), "ca") }
func keyIn(dir string) string        { return filepath.Join(dir, keyFile) }
func verifyIn(a *Authority) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Root())
	return pool
}

// open opens the authority of a folder, "" for one in memory, that permits hosts.
func open(t testing.TB, dir string, c *clock, hosts ...string) *Authority {
	t.Helper()
	return opened(t, Options{Dir: dir, Sealer: newBox(t, 1), Clock: c.Now}, hosts...)
}

func opened(t testing.TB, o Options, hosts ...string) *Authority {
	t.Helper()
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Open(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := a.Permit(hosts); err != nil {
		t.Fatal(err)
	}
	return a
}

// issuerOf is the intermediate that permits a host.
func issuerOf(t testing.TB, a *Authority, host string) *issuer {
	t.Helper()
	is := a.standing.Load().issuers[host]
	if is == nil {
		t.Fatalf("nothing permits %s", host)
	}
	return is
}

// refusal opens the folder, which must fail, and returns why.
func refusal(t *testing.T, dir string, key byte, c *clock) *FileError {
	t.Helper()
	a, err := New(Options{Dir: dir, Sealer: newBox(t, key), Clock: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	err = a.Open(t.Context())
	var problem *FileError
	if !errors.As(err, &problem) {
		t.Fatalf("Open gave %v, not a FileError", err)
	}
	if _, err := a.Leaf("a.test:443"); err == nil {
		t.Error("an authority that did not open mints leaves")
	}
	return problem
}

func leaf(t testing.TB, a *Authority, authority string) *tls.Certificate {
	t.Helper()
	c, err := a.Leaf(authority)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// verify checks a chain as a client does.
func verify(a *Authority, c *tls.Certificate, name string, now time.Time) error {
	inter := x509.NewCertPool()
	for _, der := range c.Certificate[1:] {
		parsed, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		inter.AddCert(parsed)
	}
	_, err := c.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: verifyIn(a), Intermediates: inter, CurrentTime: now})
	return err
}
