package installer_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/installer"
	"github.com/kimbap-run/kimbap/services"
)

// edit replaces an installed file; as written it counts as what kimbap itself wrote there.
func (s *shelf) edit(t *testing.T, name, text string, asWritten bool) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.Home.Services(), name+".yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if !asWritten {
		return
	}
	pins, err := s.Home.ReadPins()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(text))
	pins.Catalogue[name] = hex.EncodeToString(sum[:])
	if err := s.Home.WritePins(pins); err != nil {
		t.Fatal(err)
	}
}

// Files that an earlier kimbap took, and this one does not, are named with what mends them,
// and that mends each of them beside the others.
func TestInstalledFilesThatDoNotLoadAreMended(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	for _, i := range []installer.Install{{From: "resend"}, {From: "jira", Vars: map[string]string{"site": "acme"}}, {From: "todoist"}} {
		if _, err := s.Install(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	s.edit(t, "jira", "name: jira\nbase_url: https://acme.atlassian.net\nold: 1\n", true)
	s.edit(t, "todoist", "name: todoist\nmine: 1\n", false)
	s.edit(t, "own", "name: own\n", false)
	_, err := services.LoadDir(s.Home.Services())
	dir := s.Home.Services() + string(filepath.Separator)
	want := "kimbap service install jira --var site=acme; " +
		"correct " + dir + "own.yaml, or go on without it: kimbap service disable own; " +
		"correct " + dir + "todoist.yaml, or take the catalogue's in its place: kimbap service install todoist"
	if got := s.Mend(err); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	s.Broken = true
	if _, err := s.Install(t.Context(), installer.Install{From: "jira", Vars: map[string]string{"site": "acme"}}); err != nil {
		t.Errorf("beside other broken files: %v", err)
	}
	if err := s.Disable(t.Context(), "own"); err != nil {
		t.Error(err)
	}
	if _, err := s.Install(t.Context(), installer.Install{From: "todoist"}); err != nil {
		t.Error(err)
	}
	if _, err := services.LoadDir(s.Home.Services()); err != nil || !s.inForce("jira") || !s.inForce("todoist") || !s.inForce("resend") {
		t.Errorf("not mended: %v", err)
	}
}

// A file whose name is not its service's is not replaced by that service's, and both would
// stand there.
func TestNoServiceIsInstalledBesideItself(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	text := "name: resend\nversion: 1.0.0\nbase_url: https://resend.example\nactions: {get: {method: GET, path: /x}}\n"
	s.edit(t, "mail", text, false)
	if _, err := s.Install(t.Context(), installer.Install{From: "resend"}); err == nil || !strings.Contains(err.Error(), "mail.yaml") || services.Installed(s.Home.Services(), "resend") {
		t.Errorf("installed beside one of its name: %v", err)
	}
}

// A file of a repository is not replaced by what is installed into the home, whatever its name
// is.
func TestAFileOfARepositoryIsCorrectedThere(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "todoist.yaml")
	if err := os.WriteFile(file, []byte("name: todoist\nmine: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := services.LoadDir(dir)
	if got, want := s.Mend(err), "correct "+file; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
