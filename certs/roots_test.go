package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// subjects are the names in a pool.
func subjects(pool *x509.CertPool) [][]byte {
	return pool.Subjects() //nolint:staticcheck // none of these pools is the platform's own
}

func has(pool *x509.CertPool, c *x509.Certificate) bool {
	return pool != nil && slices.ContainsFunc(subjects(pool), func(s []byte) bool { return bytes.Equal(s, c.RawSubject) })
}

func TestFirstRootsAreSomeOfTheSystems(t *testing.T) {
	first := FirstRoots("")
	if first == nil {
		t.Skip("this system has no file of roots")
	}
	all, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range subjects(first) {
		if !slices.ContainsFunc(subjects(all), func(other []byte) bool { return bytes.Equal(s, other) }) {
			t.Errorf("%q is trusted first, and the system does not trust it", s)
		}
	}
}

func TestRootsComeFromTheFileThatIsNamed(t *testing.T) {
	mine, more := upstreamCA(t, func(*x509.Certificate) {}).cert, upstreamCA(t, func(c *x509.Certificate) { c.Subject.CommonName = "More" }).cert
	text := func(c *x509.Certificate) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
	}
	file := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(file, text(mine), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func() *x509.CertPool { return FirstRoots(file) }
	if firstFiles() == nil {
		if read() != nil {
			t.Error("a system that verifies by means of its own has first roots")
		}
		return
	}
	for _, name := range []string{filepath.Join(t.TempDir(), "none.pem"), os.DevNull} {
		if FirstRoots(name) != nil {
			t.Errorf("%s gives roots", name)
		}
	}

	r := NewRoots(read, text(more))
	if pool, all := r.First(); all || len(subjects(pool)) != 2 || !has(pool, mine) || !has(pool, more) {
		t.Errorf("first (all: %t) are %q", all, subjects(pool))
	}
	if len(subjects(read())) != 1 {
		t.Error("what was added was added to the file's own")
	}
	whole := r.All()
	if pool, all := r.First(); !all || pool != whole || !has(pool, more) || has(pool, mine) { // this process was not started with the variable
		t.Error("once all were asked for they are not what comes first")
	}
	if pool, all := NewRoots(func() *x509.CertPool { return nil }, nil).First(); !all || pool != nil {
		t.Error("without a first part the system's own do not come first")
	}
}
