package certs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A Java without our root refuses every host we intercept, and one without the
// system's every other host.
func TestTrustStoreHoldsTheSystemsRootsAndOurs(t *testing.T) {
	ca, err := New(Options{Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.Open(context.Background()); err != nil {
		t.Fatal(err)
	}
	bundle, err := Bundle("", ca.RootPEM())
	if err != nil {
		t.Fatal(err)
	}
	roots := bytes.Count(bundle, []byte("BEGIN CERTIFICATE"))
	broken := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no certificate")})
	store, err := TrustStore(append(broken, bundle...))
	if err != nil {
		t.Fatal(err)
	}
	again, err := TrustStore(bundle)
	if err != nil || !bytes.Equal(store, again) {
		t.Errorf("the same certificates gave other bytes, %v", err)
	}
	if _, err := exec.LookPath("keytool"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("LEFT OUT: there is no Java to read it (make setup installs one)")
	}
	file := filepath.Join(t.TempDir(), "trust.jks")
	if err := os.WriteFile(file, store, 0o600); err != nil {
		t.Fatal(err)
	}
	// keytool checks the digest when it is given a password.
	out, err := exec.Command("keytool", "-list", "-keystore", file, "-storepass", TrustStorePassword).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "trustedCertEntry"); n != roots {
		t.Errorf("keytool sees %d certificates of %d", n, roots)
	}
	sum := sha256.Sum256(ca.Root().Raw)
	if !strings.Contains(strings.ReplaceAll(string(out), ":", ""), strings.ToUpper(hex.EncodeToString(sum[:]))) {
		t.Error("our root is not among them")
	}
	store[len(store)/2] ^= 1
	if err := os.WriteFile(file, store, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("keytool", "-list", "-keystore", file, "-storepass", TrustStorePassword).Run(); err == nil {
		t.Error("a changed store passes: its digest is not checked")
	}
}

func TestTrustStoreOfNothingIsRefused(t *testing.T) {
	if store, err := TrustStore([]byte("no PEM")); err == nil || store != nil {
		t.Errorf("%d bytes, %v", len(store), err)
	}
}
