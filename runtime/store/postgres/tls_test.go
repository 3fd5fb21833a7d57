//go:build unix

package postgres_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/store/postgres"
	"github.com/kimbap-run/kimbap/runtime/store/postgres/postgrestest"
)

// A real server with a certificate is taken for the one that is meant when a CA that counts
// has signed it for that name, and no credential of ours goes to another one.
func TestTheServerProvesWhoItIs(t *testing.T) {
	t.Parallel()
	authority, certificate, key := certified(t, "localhost")
	stranger, _, _ := certified(t, "localhost")
	server := postgrestest.Start(t)
	port, name := server.ServeTLS(t, certificate, key), server.Database(t)
	for _, c := range []struct {
		host, query, want string
		verified          bool // and so it is said
	}{
		{"localhost", "sslmode=verify-full&sslrootcert=" + authority, "", true},
		{"localhost", "sslrootcert=" + authority, "", false},
		{"localhost", "", "", false},
		{"localhost", "sslmode=require", "", false},
		{"localhost", "sslmode=verify-full&sslrootcert=" + stranger, "unknown authority", false},
		{"localhost", "sslmode=verify-full", "unknown authority", false},
		{"127.0.0.1", "sslmode=verify-full&sslrootcert=" + authority, "doesn't contain any IP SANs", false},
		{"127.0.0.1", "sslmode=verify-ca&sslrootcert=" + authority, "", false},
		{"127.0.0.1,localhost", "sslrootcert=" + authority, "", true},
		{"127.0.0.1,localhost", "sslmode=require", "", false},
		{"127.0.0.1,localhost", "sslrootcert=" + stranger, "unknown authority", false},
	} {
		address := &url.URL{
			Scheme: "postgres", User: url.UserPassword(postgrestest.User, postgrestest.Password), Path: "/" + name, RawQuery: c.query,
			Host: strings.ReplaceAll(c.host, ",", fmt.Sprintf(":%d,", port)) + fmt.Sprintf(":%d", port),
		}
		found, err := postgres.Inspect(t.Context(), postgres.Options{DSN: address.String()})
		switch {
		case c.want == "" && (err != nil || !strings.HasPrefix(found.TLS, "TLSv1.") || found.Verified != c.verified):
			t.Errorf("%s?%s: over %q, verified: %v, %v", c.host, c.query, found.TLS, found.Verified, err)
		case c.want != "":
			is(t, c.host+"?"+c.query, err, runtime.CodeInternal, runtime.ReasonStorageUnavailable)
			if e := runtime.AsError(err); err != nil && !strings.Contains(e.Msg, "certificate") {
				t.Errorf("%s?%s: it is not said that the certificate is why: %s", c.host, c.query, e.Msg)
			}
		}
	}
}

// certified makes a CA, whose file it returns, and a certificate of it for a host.
func certified(t *testing.T, host string) (file string, certificate, key []byte) {
	t.Helper()
	made := func(is, by *x509.Certificate, key, signs *ecdsa.PrivateKey) (*x509.Certificate, []byte) {
		is.NotBefore, is.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, is, by, &key.PublicKey, signs)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return c, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	var keys [2]*ecdsa.PrivateKey
	for i := range keys {
		var err error
		if keys[i], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a CA of one's own"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	root, rootText := made(root, root, keys[0], keys[0])
	_, certificate = made(&x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{host}}, root, keys[1], keys[0])
	der, err := x509.MarshalPKCS8PrivateKey(keys[1])
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, rootText, 0o600); err != nil {
		t.Fatal(err)
	}
	return file, certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
