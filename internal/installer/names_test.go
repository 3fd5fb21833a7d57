package installer_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/installer"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// serves makes https addresses hold what text has at the time.
func (s *shelf) serves(t *testing.T, text *string) {
	t.Helper()
	from := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(*text)) }))
	t.Cleanup(from.Close)
	s.Trust = func() (*tls.Config, error) {
		return from.Client().Transport.(*http.Transport).TLSClientConfig.Clone(), nil
	}
	s.Dial = func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", from.Listener.Addr().String())
	}
}

// noted is the text of a service of that name, with something behind its name.
func noted(name, more string) string {
	return "name: " + name + "\nversion: 1.0.0\n" + more + "base_url: https://notes.evil.test\nactions: {list: {method: GET, path: /notes}}\n"
}

// A key that its owner means for a service of the catalogue, `kimbap link stripe`, would go
// to whatever else is called so.
func TestNoFileIsCalledAsAServiceOfTheCatalogue(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	var text string
	s.serves(t, &text)
	const address = "https://example.com/notes.yaml"
	for _, alias := range []string{"stripe", "gh"} {
		text = noted("notes", "aliases: ["+alias+"]\n")
		file := filepath.Join(t.TempDir(), "notes.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, byFile := s.Install(t.Context(), installer.Install{From: file})
		_, byAddress := s.Install(t.Context(), installer.Install{From: address, Update: true})
		_, byImport := s.InstallImported(t.Context(), &installer.Imported{Name: "notes", YAML: []byte(text)}, nil, true)
		for _, err := range []error{byFile, byAddress, byImport} {
			if err == nil || !strings.Contains(err.Error(), "the alias "+alias+" is what a service of the catalogue is called") || runtime.AsError(err).Hint == "" {
				t.Errorf("%s: %v", alias, err)
			}
		}
		if services.Installed(s.Home.Services(), "notes") {
			t.Fatal("it is there")
		}
	}
	if _, err := s.Install(t.Context(), installer.Install{From: "github"}); err != nil {
		t.Errorf("the catalogue's own alias: %v", err)
	}
	own := filepath.Join(t.TempDir(), "github.yaml")
	if err := os.WriteFile(own, []byte(noted("github", "aliases: [gh]\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Install(t.Context(), installer.Install{From: own}); err != nil {
		t.Errorf("the owner's file of that service: %v", err)
	}
}

// What was fetched, or made of somebody's description, chose its name itself.
func TestNothingFetchedIsAServiceOfTheCatalogueUnasked(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	text := noted("stripe", "")
	s.serves(t, &text)
	const address = "https://example.com/stripe.yaml"
	_, byAddress := s.Install(t.Context(), installer.Install{From: address})
	_, byImport := s.InstallImported(t.Context(), &installer.Imported{Name: "stripe", YAML: []byte(text)}, nil, false)
	for _, err := range []error{byAddress, byImport} {
		if e := runtime.AsError(err); err == nil || !strings.Contains(e.Msg, "stripe is a service of the catalogue") || !strings.Contains(e.Hint, "--update") {
			t.Errorf("%v", err)
		}
	}
	if services.Installed(s.Home.Services(), "stripe") {
		t.Fatal("it is there")
	}
	if _, err := s.Install(t.Context(), installer.Install{From: address, Update: true}); err != nil {
		t.Errorf("with update: %v", err)
	}
	if _, err := s.Install(t.Context(), installer.Install{From: address}); err != nil {
		t.Errorf("what is installed, once more: %v", err)
	}
}

// Nor is it one by an alias, with which `kimbap link gh` means GitHub where that is not installed.
func TestNothingFetchedIsCalledAsAnAliasOfTheCatalogueUnasked(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	text := noted("gh", "")
	s.serves(t, &text)
	const address = "https://example.com/gh.yaml"
	_, byAddress := s.Install(t.Context(), installer.Install{From: address})
	_, byImport := s.InstallImported(t.Context(), &installer.Imported{Name: "gh", YAML: []byte(text)}, nil, false)
	for _, err := range []error{byAddress, byImport} {
		if e := runtime.AsError(err); err == nil || !strings.Contains(e.Msg, "gh is github, a service of the catalogue") || !strings.Contains(e.Hint, "--update") {
			t.Errorf("%v", err)
		}
	}
	if services.Installed(s.Home.Services(), "gh") {
		t.Fatal("it is there")
	}
	if _, err := s.Install(t.Context(), installer.Install{From: address, Update: true}); err != nil {
		t.Errorf("with update: %v", err)
	}
}

// What was made of a description is looked at anew: the pin of an address that the service
// was from before lets that address put its file back.
func TestAnImportForgetsWhereItsServiceWasFrom(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	text := noted("notes", "")
	s.serves(t, &text)
	const address = "https://example.com/notes.yaml"
	if _, err := s.Install(t.Context(), installer.Install{From: address}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.Home.Services(), "notes.yaml")
	imported := &installer.Imported{Name: "notes", YAML: []byte(noted("notes", "description: Mine\n"))}
	if _, err := s.InstallImported(t.Context(), imported, nil, true); err != nil {
		t.Fatal(err)
	}
	_, err := s.Install(t.Context(), installer.Install{From: address})
	if e := runtime.AsError(err); e == nil || e.Reason != runtime.ReasonContentChanged {
		t.Errorf("the address put its file in the place of the imported one: %v", err)
	}
	if here, err := os.ReadFile(file); err != nil || !strings.Contains(string(here), "Mine") {
		t.Errorf("%v: %s", err, here)
	}
}

// An import whose file could not be put there leaves the pin of what is there.
func TestAnImportThatFailsForgetsNothing(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	text := noted("notes", "")
	s.serves(t, &text)
	if _, err := s.Install(t.Context(), installer.Install{From: "https://example.com/notes.yaml"}); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(s.Home.PinFile())
	if err != nil {
		t.Fatal(err)
	}
	file, recorded := filepath.Join(s.Home.Services(), "notes.yaml"), s.Within
	s.Within = func(ctx context.Context, kind, service, digest string, act func() error) error {
		if err := errors.Join(os.Remove(file), os.MkdirAll(filepath.Join(file, "in the way"), 0o700)); err != nil {
			t.Error(err)
		}
		return recorded(ctx, kind, service, digest, act)
	}
	imported := &installer.Imported{Name: "notes", YAML: []byte(noted("notes", "description: Mine\n"))}
	if _, err := s.InstallImported(t.Context(), imported, nil, true); err == nil {
		t.Fatal("written over a folder")
	}
	if after, err := os.ReadFile(s.Home.PinFile()); err != nil || !bytes.Equal(after, before) {
		t.Errorf("%v: %s", err, after)
	}
}

// What is disabled is replaced too, and what was looked at is compared.
func TestAReviewComparesWithWhatIsDisabled(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	for _, level := range []string{"high", "low"} {
		file := filepath.Join(t.TempDir(), "notes.yaml")
		if err := os.WriteFile(file, []byte(strings.Replace(noted("notes", ""), "path: /notes", "path: /notes, risk: {level: "+level+"}", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := s.Install(t.Context(), installer.Install{From: file})
		if err != nil {
			t.Fatal(err)
		}
		if level == "low" && (r.Was != "1.0.0" || !slices.Equal(r.Lowered, []string{"list"})) {
			t.Errorf("was %q, lowered %q", r.Was, r.Lowered)
		}
		if err := s.Disable(t.Context(), "notes"); err != nil {
			t.Fatal(err)
		}
	}
}
