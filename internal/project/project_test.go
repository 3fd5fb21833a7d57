package project_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/project"
	"github.com/kimbap-run/kimbap/services"
)

const notes = "name: notes\nversion: 1.0.0\nbase_url: https://notes.test\nauth: {type: bearer, credential_ref: notes.token}\nactions:\n  list: {method: GET, path: /notes}\n"

// repository makes a project with one service file and returns its root.
func repository(t *testing.T) (root, file string) {
	t.Helper()
	root = t.TempDir()
	file = filepath.Join(root, ".kimbap", "services", "notes.yaml")
	for _, dir := range []string{filepath.Dir(file), filepath.Join(root, "a", "b")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, file, notes)
	return root, file
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func never(string) bool { return false }

func found(t *testing.T, dir string) *project.Project {
	t.Helper()
	p, err := project.Find(dir, never)
	if err != nil || p == nil {
		t.Fatalf("%v, %v", p, err)
	}
	return p
}

func TestAProjectIsTrustedAsItWas(t *testing.T) {
	root, file := repository(t)
	book, err := project.ReadBook(filepath.Join(root, "none"))
	if err != nil {
		t.Fatal(err)
	}
	p := found(t, filepath.Join(root, "a", "b"))
	if book.Mark(p); p.Trusted {
		t.Error("trusted before anybody has said so")
	}
	book.Trust(p, true)
	data, err := book.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(t.TempDir(), "trust.json")
	write(t, kept, string(data))
	if book, err = project.ReadBook(kept); err != nil {
		t.Fatal(err)
	}
	p = found(t, root)
	if book.Mark(p); !p.Trusted || !p.Commands {
		t.Error("what was trusted is not")
	}
	write(t, file, notes+"\n")
	p = found(t, root)
	if book.Mark(p); p.Trusted || p.Commands {
		t.Error("other bytes are trusted")
	}
}

func TestWhatIsNoProjectIsNotRead(t *testing.T) {
	root, file := repository(t)
	at := filepath.Join(root, ".kimbap")
	if p, err := project.Find(root, func(dir string) bool { return dir == at }); p != nil || err != nil {
		t.Errorf("a home is a project: %v, %v", p, err)
	}
	if err := os.Symlink(file, filepath.Join(filepath.Dir(file), "more.yaml")); err != nil {
		t.Fatal(err)
	}
	if p, err := project.Find(root, never); err == nil {
		t.Errorf("a link was followed: %v", p)
	}
	folder := filepath.Dir(file)
	away := filepath.Join(t.TempDir(), "services")
	if err := os.Remove(filepath.Join(folder, "more.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(folder, away), os.Symlink(away, folder)); err != nil {
		t.Fatal(err)
	}
	if p, err := project.Find(root, never); err == nil {
		t.Errorf("a folder that is a link was followed: %v", p)
	}
}

// What a stranger's repository has there stops nobody: it is not trusted, and that is all. Who
// trusted it does not go without its services unawares.
func TestWhatCannotBeReadIsNotTrusted(t *testing.T) {
	root, file := repository(t)
	h := home.Folder{Dir: filepath.Join(t.TempDir(), "home")}
	if _, err := h.Create(); err != nil {
		t.Fatal(err)
	}
	recorded := func(context.Context, string, string, string) error { return nil }
	k := project.Keeper{Home: h, Record: recorded, Deprive: recorded}
	folder := filepath.Dir(file)
	hindrances := []struct {
		said    string
		put, rm func() error
	}{
		{"is a link", func() error { return os.Symlink(file, filepath.Join(folder, "z.yaml")) }, func() error { return os.Remove(filepath.Join(folder, "z.yaml")) }},
		{"is not a file", func() error { return os.Mkdir(filepath.Join(folder, "z.yaml"), 0o700) }, func() error { return os.Remove(filepath.Join(folder, "z.yaml")) }},
		{"larger than 1 MiB", func() error { return os.WriteFile(file, make([]byte, 1<<20+1), 0o600) }, func() error { return os.WriteFile(file, []byte(notes), 0o600) }},
		{"at most 64 service files", func() (err error) {
			for i := range 64 {
				err = errors.Join(err, os.WriteFile(filepath.Join(folder, fmt.Sprintf("x%d.yaml", i)), nil, 0o600))
			}
			return err
		}, func() (err error) {
			for i := range 64 {
				err = errors.Join(err, os.Remove(filepath.Join(folder, fmt.Sprintf("x%d.yaml", i))))
			}
			return err
		}},
	}
	for _, trusted := range []bool{false, true} {
		if trusted {
			if err := k.Trust(t.Context(), found(t, root), false); err != nil {
				t.Fatal(err)
			}
		}
		for _, one := range hindrances {
			if err := one.put(); err != nil {
				t.Fatal(err)
			}
			p, err := k.InForce(root)
			if trusted && (err == nil || !strings.Contains(err.Error(), one.said)) || !trusted && (err != nil || p == nil || p.Trusted || p.Dir != filepath.Dir(folder)) {
				t.Errorf("%s, trusted %t: %v, %v", one.said, trusted, p, err)
			}
			if _, err := k.At(root); err == nil || !strings.Contains(err.Error(), one.said) {
				t.Errorf("%s: to trust it: %v", one.said, err)
			}
			if err := one.rm(); err != nil {
				t.Fatal(err)
			}
		}
		if p, err := k.InForce(root); err != nil || p == nil || p.Trusted != trusted {
			t.Errorf("as it was: %v, %v", p, err)
		}
	}
}

func TestAProjectTakesNoNameOfTheCatalogue(t *testing.T) {
	root, _ := repository(t)
	p := found(t, root)
	if err := p.Parse(func(*services.Service) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if list, err := p.Join(nil, nil, []string{"other"}, false); err != nil || len(list) != 1 || list[0].Name != "notes" {
		t.Fatalf("%v, %v", list, err)
	}
	if _, err := p.Join(nil, nil, []string{"notes"}, false); err == nil || !strings.Contains(err.Error(), "catalogue") {
		t.Errorf("got %v", err)
	}
}

// Nothing is trusted or forgotten that is not recorded first; a home is no project.
func TestTrustIsRecordedFirst(t *testing.T) {
	root, _ := repository(t)
	h := home.Folder{Dir: filepath.Join(t.TempDir(), "home")}
	if _, err := h.Create(); err != nil {
		t.Fatal(err)
	}
	full := errors.New("the disk of the trail is full")
	var said []string
	record := func(as string) func(context.Context, string, string, string) error {
		return func(_ context.Context, kind, folder, _ string) error {
			said = append(said, as+kind+" "+folder)
			return full
		}
	}
	k := project.Keeper{Home: h, Record: record(""), Deprive: record("deprive: ")}
	trusted := func() bool {
		t.Helper()
		p, err := k.At(root)
		if err != nil || p == nil {
			t.Fatal(p, err)
		}
		return p.Trusted
	}
	p, err := k.At(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Trust(t.Context(), p, false); !errors.Is(err, full) || trusted() {
		t.Errorf("trusted without a record: %v", err)
	}
	full = nil
	if err := k.Trust(t.Context(), p, false); err != nil || !trusted() {
		t.Fatal(err)
	}
	full = errors.New("full again")
	if _, err := k.Distrust(t.Context(), root); !errors.Is(err, full) || !trusted() {
		t.Errorf("forgotten without a record: %v", err)
	}
	full = nil
	if folder, err := k.Distrust(t.Context(), root); err != nil || folder != p.Dir || trusted() {
		t.Errorf("%s: %v", folder, err)
	}
	if want := []string{"project.trust " + p.Dir, "project.trust " + p.Dir, "deprive: project.distrust " + p.Dir, "deprive: project.distrust " + p.Dir}; !slices.Equal(said, want) {
		t.Errorf("recorded %q", said)
	}
	if _, err := k.Distrust(t.Context(), root); err == nil {
		t.Error("what nobody trusted was forgotten")
	}
}
