package certs

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// poolOf has these certificates and no others.
func poolOf(list ...*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range list {
		pool.AddCert(c)
	}
	return pool
}

// holds says whether a certificate is in a pool: adding it changes nothing.
func holds(pool *x509.CertPool, c *x509.Certificate) bool {
	with := pool.Clone()
	with.AddCert(c)
	return with.Equal(pool)
}

func TestFirstRootsAreSomeOfTheSystems(t *testing.T) {
	named := os.Getenv("SSL_CERT_FILE")
	first := FirstRoots(named)
	files := firstFiles()
	if files == nil {
		if first != nil {
			t.Error("a system that verifies by means of its own has first roots")
		}
		return
	}
	if first == nil {
		t.Fatal("this system has no file of roots: install ca-certificates")
	}
	if named != "" {
		files = []string{named}
	}
	var text []byte
	i := slices.IndexFunc(files, func(file string) (found bool) {
		var err error
		text, err = os.ReadFile(file)
		return err == nil
	})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	if !first.Equal(pool) {
		t.Errorf("the first roots are not those of %s", files[i])
	}
	all, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	both := all.Clone()
	both.AppendCertsFromPEM(text)
	if !both.Equal(all) {
		t.Errorf("%s is trusted first, and has roots that the system does not trust", files[i])
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
	if pool, all := r.First(); all || !pool.Equal(poolOf(mine, more)) {
		t.Errorf("first (all: %t) are not those of the file and those that were added", all)
	}
	if !read().Equal(poolOf(mine)) {
		t.Error("what was added was added to the file's own")
	}
	whole := r.All()
	if pool, all := r.First(); !all || pool != whole || !holds(pool, more) || holds(pool, mine) { // this process was not started with the variable
		t.Error("once all were asked for they are not what comes first")
	}
	if pool, all := NewRoots(func() *x509.CertPool { return nil }, nil).First(); !all || pool != nil {
		t.Error("without a first part the system's own do not come first")
	}
}
