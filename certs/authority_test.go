package certs

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
		if err := RefuseOurs(conn.ConnectionState().VerifiedChains); !errors.Is(err, ErrOurs) {
			t.Errorf("our own chain is taken for an upstream's: %v", err)
		}
		_ = conn.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

func TestAnUpstreamWithACertificateOfOursIsRefused(t *testing.T) {
	c := newClock()
	a, b := open(t, newDir(t), c, "a.test:443"), open(t, newDir(t), c)
	foreign := &x509.Certificate{Raw: []byte{1}}
	if err := RefuseOurs([][]*x509.Certificate{{foreign, foreign}}); err != nil {
		t.Errorf("a public chain: %v", err)
	}
	for name, chains := range map[string][][]*x509.Certificate{
		"none":            nil,
		"our root":        {{foreign, a.Root()}},
		"another kimbap":  {{foreign, b.Root()}},
		"second chain":    {{foreign}, {foreign, a.Root()}},
		"intermediate as": {{foreign, issuerOf(t, a, "a.test").cert}},
	} {
		if RefuseOurs(chains) == nil {
			t.Errorf("%s passes", name)
		}
	}
	if IsOurs(nil) || IsOurs(foreign) {
		t.Error("a foreign certificate is ours")
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

func TestCacheIsSharedAndRenewed(t *testing.T) {
	c := newClock()
	a := open(t, newDir(t), c, "a.test:443", "b.test:443", "herd.test:443")
	first := leaf(t, a, "a.test:443")
	if leaf(t, a, "a.test:8443") != first || leaf(t, a, "b.test:443").PrivateKey != first.PrivateKey {
		t.Error("the leaf or its key is not shared")
	}
	c.Add(leafLife - leafRenew - time.Minute)
	if leaf(t, a, "a.test:443") != first {
		t.Error("renewed too early")
	}
	c.Add(2 * time.Minute)
	second := leaf(t, a, "a.test:443")
	if second == first || verify(a, second, "a.test", c.Now().Add(leafRenew)) != nil {
		t.Error("not renewed in time")
	}
	var group sync.WaitGroup
	got := make([]*tls.Certificate, 64)
	for i := range got {
		group.Go(func() { got[i], _ = a.Leaf("herd.test:443") })
	}
	group.Wait()
	for _, g := range got {
		if g == nil || g != got[0] {
			t.Fatal("callers at once got different leaves")
		}
	}
}

// 5,000 hosts, of services and of none: what is kept of them is bounded.
func TestCachesAreBounded_TL009(t *testing.T) {
	var hosts []string
	for i := range 5000 {
		hosts = append(hosts, fmt.Sprintf("h%d.test:443", i))
	}
	a := opened(t, Options{Sealer: newBox(t, 1), Clock: newClock().Now, AnyHost: true}, hosts...)
	for _, host := range hosts {
		leaf(t, a, host)
	}
	for i := range maxSingles + 10 {
		leaf(t, a, fmt.Sprintf("other%d.test:443", i))
	}
	if a.leaves.Len() != maxLeaves || a.singles.Len() != maxSingles {
		t.Errorf("%d leaves, %d intermediates for one host each", a.leaves.Len(), a.singles.Len())
	}
}

// The proxy lives for months: leaves stay good until the root ends, and the
// root is never replaced.
func TestAYear(t *testing.T) {
	c := newClock()
	dir := newDir(t)
	a := open(t, dir, c, "a.test:443")
	issuers := map[*issuer]bool{}
	for c.Now().Before(a.Root().NotAfter.Add(-time.Hour)) {
		got := leaf(t, a, "a.test:443")
		if err := verify(a, got, "a.test", c.Now()); err != nil {
			t.Fatalf("%s: %v", c.Now(), err)
		}
		if got.Leaf.NotAfter.After(a.Root().NotAfter) {
			t.Fatalf("a leaf outlives the root: %s", got.Leaf.NotAfter)
		}
		issuers[issuerOf(t, a, "a.test")] = true
		if soon := a.Root().NotAfter.Sub(c.Now()) < 30*day; soon != a.ExpiresSoon() {
			t.Fatalf("%s: ExpiresSoon is %t", c.Now(), a.ExpiresSoon())
		}
		c.Add(11 * time.Hour)
	}
	if n := len(issuers); n < 50 || n > 200 {
		t.Errorf("%d intermediates in a year", n)
	}
	c.Add(12 * time.Hour)
	if _, err := a.Leaf("a.test:443"); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("after the end: %v", err)
	}
	if p := refusal(t, dir, 1, c); p.File != a.CAFile() || !strings.Contains(p.Msg, "expired") || p.Fix == "" {
		t.Errorf("%v", p)
	}
}

func TestRenewalThatFailsUsesWhatIsLeft(t *testing.T) {
	c := newClock()
	dir := newDir(t)
	a := open(t, dir, c, "a.test:443", "b.test:443")
	if err := os.Remove(keyIn(dir)); err != nil {
		t.Fatal(err)
	}
	c.Add(issuerLife - issuerRenew + time.Hour)
	if err := verify(a, leaf(t, a, "a.test:443"), "a.test", c.Now()); err != nil {
		t.Errorf("the old intermediate is not used: %v", err)
	}
	c.Add(issuerLife)
	if _, err := a.Leaf("b.test:443"); err == nil || !strings.Contains(err.Error(), "renew the intermediate") {
		t.Errorf("without an intermediate: %v", err)
	}
}

func BenchmarkMint(b *testing.B) {
	a := open(b, newDir(b), newClock(), "api.github.com:443")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.mint("api.github.com"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCached(b *testing.B) {
	a := open(b, newDir(b), newClock(), "api.github.com:443")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Leaf("api.github.com:443"); err != nil {
			b.Fatal(err)
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

func TestCallersAtOnceShareOneSignature(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var armed atomic.Bool
		var signing atomic.Int32
		gate := make(chan struct{})
		a, err := New(Options{Clock: func() time.Time {
			if armed.Load() { // signing begins with a look at the clock
				signing.Add(1)
				<-gate
			}
			return newClock().Now()
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := a.Permit([]string{"herd.test:443"}); err != nil {
			t.Fatal(err)
		}
		armed.Store(true)
		var group sync.WaitGroup
		for range 32 {
			group.Go(func() {
				if _, err := a.Leaf("herd.test:443"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := signing.Load(); n != 1 {
			t.Errorf("%d signatures under way for one host", n)
		}
		armed.Store(false)
		close(gate)
		group.Wait()
	})
}
