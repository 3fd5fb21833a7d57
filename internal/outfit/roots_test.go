package outfit

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/internal/runner"
)

// company makes a root that is none of kimbap's, as PEM.
func company(t *testing.T, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// kimbaps is the root of some kimbap.
func kimbaps(t *testing.T) []byte {
	t.Helper()
	ca, err := certs.New(certs.Options{Clock: time.Now})
	if err == nil {
		err = ca.Open(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return ca.RootPEM()
}

// file puts parts of a text into a new file.
func file(t *testing.T, parts ...[]byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(path, bytes.Join(parts, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestARunHasTheRootsOfAllVariablesThatItReplaces(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ours, base, curl, git, node := kimbaps(t), company(t, "base"), company(t, "curl"), company(t, "git"), company(t, "node")
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("a key")})
	odd := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("none that can be parsed")})
	both := file(t, []byte("words\n"), curl, key, odd, kimbaps(t), curl, base)
	env := Environment{
		"SSL_CERT_FILE": file(t, base), "CURL_CA_BUNDLE": both, "REQUESTS_CA_BUNDLE": both, "GIT_SSL_CAINFO": file(t, git, curl),
		"NODE_EXTRA_CA_CERTS": file(t, node), "DENO_CERT": file(t, kimbaps(t)),
	}
	var said []string
	f, err := Run{Say: func(line string) { said = append(said, line) }}.NewFolder(ours, env)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Remove()
	if got, want := read(t, f.Place().Bundle), string(certs.MadeFrom(env["SSL_CERT_FILE"], bytes.Join([][]byte{base, ours, curl, git}, nil))); got != want {
		t.Errorf("the bundle is\n%s\nwant\n%s", got, want)
	}
	if got, want := read(t, f.Place().CA), string(ours)+string(node); got != want {
		t.Errorf("beside ours:\n%s\nwant\n%s", got, want)
	}
	if err := f.Settle(runner.Place{Proxy: "http://127.0.0.1:1", Settings: f.Place().Settings}); err != nil {
		t.Fatal(err)
	}
	if want, err := certs.TrustStore([]byte(read(t, f.Place().Bundle))); err != nil || read(t, filepath.Join(f.Place().Settings, runner.TrustFile)) != string(want) {
		t.Errorf("Java has other roots: %v", err)
	}
	if len(said) > 0 {
		t.Errorf("said %q", said)
	}
}

func TestAFileOfRootsThatCannotBeHadIsSaidAndNoError(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ours, corp := kimbaps(t), company(t, "corp")
	large := file(t, corp, bytes.Repeat([]byte("#"), maxRoots))
	env := Environment{
		"SSL_CERT_FILE": file(t, company(t, "base")), "CURL_CA_BUNDLE": "/nowhere/roots.pem", "PIP_CERT": "/nowhere/roots.pem", "REQUESTS_CA_BUNDLE": t.TempDir(),
		"GIT_SSL_CAINFO": file(t, []byte("words")), "AWS_CA_BUNDLE": large, "NODE_EXTRA_CA_CERTS": os.DevNull,
	}
	var said []string
	f, err := Run{Say: func(line string) { said = append(said, line) }}.NewFolder(ours, env)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Remove()
	all := strings.Join(said, "\n")
	for _, want := range []string{
		`CURL_CA_BUNDLE, PIP_CERT: replaced, without the roots in "/nowhere/roots.pem": `, "REQUESTS_CA_BUNDLE: ", "it is not a file",
		"GIT_SSL_CAINFO: ", "there is no certificate in it", "AWS_CA_BUNDLE: ", "it is larger than 1 MiB", "NODE_EXTRA_CA_CERTS: ",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("said\n%s\nwant %q", all, want)
		}
	}
	if len(said) != 5 || strings.Contains(read(t, f.Place().Bundle), string(corp)) || read(t, f.Place().CA) != string(ours) {
		t.Errorf("said\n%s", all)
	}
}

func TestAShellIsToldWhichRootsItLoses(t *testing.T) {
	ours, corp, other := kimbaps(t), company(t, "corp"), company(t, "other")
	place := func() runner.Place { return runner.Place{CA: file(t, ours), Bundle: file(t, corp, ours)} }
	for name, c := range map[string]struct {
		env    Environment
		bundle bool // for the variables that add
		want   string
	}{
		"nothing":            {Environment{}, false, ""},
		"those of kimbap":    {Environment{"NODE_EXTRA_CA_CERTS": file(t, ours), "CURL_CA_BUNDLE": file(t, kimbaps(t))}, false, ""},
		"in the bundle":      {Environment{"CURL_CA_BUNDLE": file(t, corp)}, false, ""},
		"added, in there":    {Environment{"NODE_EXTRA_CA_CERTS": file(t, corp)}, true, ""},
		"in no file of ours": {Environment{"PIP_CERT": file(t, corp, other)}, false, "PIP_CERT: replaced, without"},
		"added, in none":     {Environment{"DENO_CERT": file(t, other)}, false, "DENO_CERT: replaced, without"},
		"gone":               {Environment{"DENO_CERT": "/nowhere/roots.pem"}, false, "DENO_CERT: replaced, without"},
		"the bundle's own":   {Environment{"SSL_CERT_FILE": file(t, other)}, false, ""},
	} {
		p := place()
		before := p
		notes, err := c.env.Fit(Form{Shell: "sh"}, &p)
		if err != nil || (c.want == "") != (len(notes) == 0) || !strings.HasPrefix(strings.Join(notes, "\n"), c.want) {
			t.Errorf("%s: said %q, %v", name, notes, err)
		}
		if want := map[bool]string{true: before.Bundle, false: before.CA}[c.bundle]; p.CA != want || p.Bundle != before.Bundle {
			t.Errorf("%s: leads to %+v", name, p)
		}
	}
}
