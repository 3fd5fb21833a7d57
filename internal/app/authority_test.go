package app_test

import (
	"bytes"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// rootsIn are the roots that a file of the home names.
func rootsIn(t *testing.T, k *apptest.Kimbap, name string) *x509.CertPool {
	t.Helper()
	pool := k.Up.Roots()
	text, err := os.ReadFile(filepath.Join(k.Dir, "ca", name))
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatalf("%s: %v", name, err)
	}
	return pool
}

// Open tunnels go on; within a second what is new has a certificate of the new
// root, and both files name both roots.
func TestRotationUnderLiveTunnels_TL011(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	tunnels := make([]*apptest.Wire, 50)
	for i := range tunnels {
		tunnels[i] = k.Tunnel(t, apptest.Authority)
	}
	before, err := k.App.CA(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	old := before.Root()
	done, err := k.Open(t, "").RotateCA(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if len(done.Proxies) != 1 || done.OldUntil == nil || done.Old == done.Fingerprint {
		t.Errorf("%+v", done)
	}
	apptest.Within(t, soon, "the new root in the proxy", func() bool { return before.Fingerprint() == done.Fingerprint })
	onlyNew := k.Up.Roots()
	onlyNew.AddCert(before.Root())
	w, a := k.Connect(t, apptest.Authority)
	if a.Status != http.StatusOK {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	if a := w.TLS(t, onlyNew, apptest.Authority).Ask(getNote); a.Status != 200 {
		t.Errorf("by the new root: %d %+v", a.Status, a.Problem)
	}
	for i, w := range tunnels {
		if a := w.Ask(getNote); a.Status != 200 {
			t.Fatalf("tunnel %d of the old root: %d %v", i, a.Status, a.Err)
		}
	}
	for _, name := range []string{"ca.pem", "bundle.pem"} {
		pool := rootsIn(t, k, name)
		for _, root := range []*x509.Certificate{old, before.Root()} {
			if _, err := root.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
				t.Errorf("%s does not name %s", name, root.Subject)
			}
		}
	}
	apptest.Within(t, soon, "the record of the change", func() bool {
		var rotated, reloaded bool
		for _, r := range k.Records(t) {
			rotated = rotated || r.Event == "ca.rotate"
			reloaded = reloaded || r.Event == "ca.reload" && r.Fields["fingerprint"] == done.Fingerprint
		}
		return rotated && reloaded
	})
}

// A service that is installed while agents run has certificates at once.
func TestAServiceAddedWhileTheProxyRunsHasCertificates(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Resolve: []string{"second.test:443"}})
	k.Write(t, "services/second.yaml", second)
	apptest.Within(t, soon, "the new service", func() bool {
		_, ok := k.App.Services().Service("second")
		return ok
	})
	if a := k.Tunnel(t, "second.test:443").Ask("GET /x HTTP/1.1\r\nHost: second.test\r\n\r\n"); a.Problem.Reason == "not_certified" || a.Status == 0 {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
}

// The root of a run has signed for what there was; a host that came later is
// refused before the 200, recorded, and the others go on.
func TestAHostThatARunDoesNotPermitIsRefusedAtConnect(t *testing.T) {
	t.Parallel()
	ca, err := certs.New(certs.Options{Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := ca.Permit([]string{apptest.Authority}); err != nil {
		t.Fatal(err)
	}
	k := apptest.New(t, apptest.Options{Serve: app.ServeOptions{CA: ca}, Resolve: []string{"second.test:443"}})
	k.Write(t, "services/second.yaml", second)
	apptest.Within(t, soon, "the new service", func() bool {
		_, ok := k.App.Services().Service("second")
		return ok
	})
	before := len(k.Up.Requests())
	_, a := k.Connect(t, "second.test:443")
	if a.Status != http.StatusForbidden || a.Problem.Code != "forbidden" || a.Problem.Reason != "not_certified" || !strings.Contains(a.Body, "restart this run") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	apptest.Eventually(t, "the record of the refusal", func() bool {
		return slices.ContainsFunc(k.Records(t), func(r apptest.Record) bool {
			return r.ID == a.Problem.RequestID && r.Reason == "not_certified"
		})
	})
	if len(k.Up.Requests()) != before {
		t.Error("the upstream was asked")
	}
	pool := k.Up.Roots()
	pool.AddCert(ca.Root())
	w, a := k.Connect(t, apptest.Authority)
	if a.Status != http.StatusOK {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	if a := w.TLS(t, pool, apptest.Authority).Ask(getNote); a.Status != 200 {
		t.Errorf("a host that was permitted: %d %+v", a.Status, a.Problem)
	}
}

// With intercept: all a host of no service is opened too, by an intermediate
// for it alone.
func TestInterceptAllSignsForHostsOfNoService(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Config: "proxy: {intercept: all}\n", Resolve: []string{"nobody.test:443"}})
	pool := x509.NewCertPool() // without the upstream's: nothing passes untouched
	pool.AppendCertsFromPEM(mustRead(t, filepath.Join(k.Dir, "ca", "ca.pem")))
	w, a := k.Connect(t, "nobody.test:443")
	if a.Status != http.StatusOK {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	if a := w.TLS(t, pool, "nobody.test:443").Ask("GET / HTTP/1.1\r\nHost: nobody.test\r\n\r\n"); a.Status == 0 {
		t.Errorf("%v", a.Err)
	}
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Nothing that is handed out, or lies in the clear, holds a private key.
func TestNoPrivateKeyIsHandedOut_TL012(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	for _, path := range []string{"/healthz", "/kimbap/ca.pem", "/kimbap/proxy.pac", "/kimbap/root.key", "/ca/root.key", "/kimbap/../ca/root.key", "/kimbap/"} {
		a := k.Dial(t).Ask("GET " + path + " HTTP/1.1\r\nHost: " + k.Proxy + "\r\n\r\n")
		if strings.Contains(a.Body, "KEY") || path == "/kimbap/ca.pem" && !strings.Contains(a.Body, "BEGIN CERTIFICATE") {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	sealed := string(mustRead(t, filepath.Join(k.Dir, "ca", "root.key")))
	_, sealed, found := strings.Cut(sealed, "-----END CERTIFICATE-----")
	if !found || strings.Count(sealed, "\n") < 4 {
		t.Fatalf("root.key holds no sealed key: %d lines", strings.Count(sealed, "\n"))
	}
	c := newAPI(t, k)
	admin, _ := tokenOf(t, k, app.TokenGrant{Agent: "ad", Roles: []string{runtime.RoleAdmin}})
	for _, page := range append(described(t, c), "GET /ca", "GET /ca/root.key", "GET /v1/ca", "GET /kimbap/root.key") {
		method, path, _ := strings.Cut(page, " ")
		path = strings.NewReplacer("{service}", "notes", "{action}", "get-note", "{name}", apptest.Secret, "{id}", "apr_x").Replace(path)
		if method != "GET" {
			continue
		}
		a := c.ask(t, admin, method, path, "")
		for line := range strings.Lines(sealed) {
			if line = strings.TrimSpace(line); len(line) > 16 && strings.Contains(a.Body, line) || strings.Contains(a.Body, "PRIVATE KEY") {
				t.Errorf("%s: %d %s", page, a.Status, a.Body)
			}
		}
	}
	err := filepath.WalkDir(k.Dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && bytes.Contains(mustRead(t, path), []byte("PRIVATE KEY")) {
			t.Errorf("%s holds a key in clear", path)
		}
		return err
	})
	if err != nil || strings.Contains(k.Log.String(), "PRIVATE KEY") {
		t.Errorf("%v", err)
	}
}
