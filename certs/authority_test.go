package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

func TestNewRefuses(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("no clock is fine")
	}
	if _, err := New(Options{Dir: "x", Clock: time.Now}); err == nil {
		t.Error("a folder without a sealer is fine")
	}
	if _, err := New(Options{AnyHost: true, Clock: time.Now}); err == nil {
		t.Error("a key that stays without a sealer is fine")
	}
	a, err := New(Options{Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Leaf("a.test:443"); err == nil || a.Root() != nil || a.Fingerprint() != "" || a.CAFile() != "" {
		t.Error("an authority works before Open")
	}
}

func TestFirstRun_TL003(t *testing.T) {
	dir, c := newDir(t), newClock()
	a := open(t, dir, c)
	for name, mode := range map[string]fs.FileMode{"": 0o700 | fs.ModeDir, keyFile: 0o600, lockFile: 0o600, caFile: 0o644, bundleFile: 0o644} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || runtime.GOOS != "windows" && info.Mode() != mode {
			t.Errorf("%q: %v %v, want %v", name, info, err, mode)
		}
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 4 {
		t.Errorf("files left behind: %v", entries)
	}
	root := a.Root()
	if !root.IsCA || root.MaxPathLen != 1 || root.KeyUsage != x509.KeyUsageCertSign || len(root.ExtKeyUsage) != 1 || root.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth || !IsOurs(root) ||
		root.PublicKey.(*ecdsa.PublicKey).Curve != elliptic.P256() || root.NotAfter.Sub(root.NotBefore) > 365*day || root.CheckSignatureFrom(root) != nil {
		t.Errorf("the root is not as it should be: %+v", root)
	}
	text, err := os.ReadFile(keyIn(dir))
	if err != nil {
		t.Fatal(err)
	}
	key, err := a.standing.Load().key.open()
	if err != nil {
		t.Fatal(err)
	}
	scalar, err := key.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for rest := text; ; {
		block, more := pem.Decode(rest)
		if block == nil {
			break
		}
		if bytes.Contains(block.Bytes, scalar) {
			t.Error("root.key holds the key in clear")
		}
		rest = more
	}
	if a.ExpiresSoon() {
		t.Error("a new root expires soon")
	}
	if again := open(t, dir, c); again.Fingerprint() != a.Fingerprint() || len(a.Fingerprint()) != 64 {
		t.Error("the second start has another root")
	}
	if other := open(t, newDir(t), c); other.Fingerprint() == a.Fingerprint() || other.Root().Subject.String() == root.Subject.String() {
		t.Error("two authorities look the same")
	}
}
