package installer_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/installer"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// shelf is a home, and what was recorded of it.
type shelf struct {
	installer.Keeper
	said []string
	full error // of the record
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	folder := home.Folder{Dir: filepath.Join(t.TempDir(), "home")}
	if _, err := folder.Create(); err != nil {
		t.Fatal(err)
	}
	set, err := services.NewSet(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &shelf{}
	s.Keeper = installer.Keeper{
		Fits: func(*services.Service) error { return nil },
		Home: folder, Services: services.NewLive(set),
		Check:   func(*services.Service) error { return nil },
		Unknown: func(name string) error { return errors.New("unknown: " + name) },
		Record: func(_ context.Context, kind, service, _ string) error {
			s.said = append(s.said, kind+" "+service)
			return s.full
		},
		Deprive: func(ctx context.Context, kind, service, digest string) error {
			return s.Record(ctx, kind, service, digest)
		},
		Within: func(ctx context.Context, kind, service, digest string, act func() error) error {
			if err := s.Record(ctx, kind, service, digest); err != nil {
				return err
			}
			return act()
		},
		Reload: func() error {
			all, err := services.LoadDir(folder.Services())
			if err != nil {
				return err
			}
			set, err := services.NewSet(all)
			if err == nil {
				s.Services.Swap(set)
			}
			return err
		},
	}
	return s
}

func (s *shelf) inForce(name string) bool {
	_, found := s.Services.Current().Service(name)
	return found
}

func TestAServiceComesAndGoes(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	step := func(want bool, err error) {
		t.Helper()
		if err != nil || s.inForce("resend") != want {
			t.Fatalf("in force: %v, wanted: %v (%v)", s.inForce("resend"), want, err)
		}
	}
	_, err := s.InstallService(t.Context(), "resend", nil)
	step(true, err)
	step(false, s.Disable(t.Context(), "resend"))
	if _, _, err := s.Ensure(t.Context(), "resend"); err == nil {
		t.Error("what is disabled was installed again")
	}
	step(true, s.Enable(t.Context(), "resend"))
	step(false, s.Remove(t.Context(), "resend"))
	want := []string{"service.install resend", "service.disable resend", "service.enable resend", "service.remove resend"}
	if !slices.Equal(s.said, want) {
		t.Errorf("recorded: %q", s.said)
	}
}

func TestNothingIsChangedWithoutItsRecord(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.full = errors.New("no trail")
	if _, err := s.InstallService(t.Context(), "resend", nil); !errors.Is(err, s.full) || services.Installed(s.Home.Services(), "resend") {
		t.Errorf("installed without a record (%v)", err)
	}
}

// What is behind an address is fetched by the connections that are given, and is held to
// what it was.
func TestAnAddressIsHeldToWhatItWas(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	text := []byte("name: notes\nversion: 1.0.0\ndescription: Notes\nbase_url: https://api.notes.test\nauth: {type: none}\nactions:\n  list: {method: GET, path: /notes, risk: {level: low}}\n")
	from := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }))
	defer from.Close()
	s.Trust = func() (*tls.Config, error) {
		return from.Client().Transport.(*http.Transport).TLSClientConfig.Clone(), nil
	}
	var dialled []string
	s.Dial = func(ctx context.Context, authority string) (net.Conn, error) {
		dialled = append(dialled, authority)
		return new(net.Dialer).DialContext(ctx, "tcp", from.Listener.Addr().String())
	}
	const address = "https://example.com/notes.yaml"
	if _, err := s.Install(t.Context(), installer.Install{From: address}); err != nil || !slices.Equal(dialled, []string{"example.com:443"}) {
		t.Fatalf("dialled %q: %v", dialled, err)
	}
	text = append(text, "# another\n"...)
	if _, err := s.Install(t.Context(), installer.Install{From: address}); err == nil {
		t.Error("another file at the same address was taken")
	}
	if _, err := s.Install(t.Context(), installer.Install{From: address, Update: true}); err != nil {
		t.Errorf("with update: %v", err)
	}
	if _, err := s.Install(t.Context(), installer.Install{From: "http://example.com/notes.yaml"}); runtime.AsError(err).Reason != runtime.ReasonInsecureScheme {
		t.Errorf("in cleartext: %v", err)
	}
}

func TestAFileThatIsFound(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	if _, err := s.InstallService(t.Context(), "resend", nil); err != nil {
		t.Fatal(err)
	}
	here, err := os.ReadFile(filepath.Join(s.Home.Services(), "resend.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if found, data, err := installer.Find(s.Home, "resend"); err != nil || found.Name != "resend" || !slices.Equal(data, here) {
		t.Errorf("of the home: %v", err)
	}
	if found, _, err := installer.Find(s.Home, "github"); err != nil || found.Name != "github" {
		t.Errorf("of the catalogue: %v", err)
	}
	if _, _, err := installer.Find(s.Home, "no-such"); runtime.AsError(err).Reason != runtime.ReasonNotFound {
		t.Errorf("of nothing: %v", err)
	}
}
