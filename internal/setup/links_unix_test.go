//go:build unix

package setup_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/setup"
)

// A repository's file may be a link, which whoever wrote the repository has made: out of the
// folder it is not followed. One of the user's own settings is, and where to is shown.
func TestAProjectsLinkLeadsNowhereElse(t *testing.T) {
	m, path, vars := machine(t)
	out := filepath.Join(t.TempDir(), "bashrc")
	write(t, out, "alias x=y\n")
	m.Dir = filepath.Join(m.User, "project")
	link := func(to, name string) {
		t.Helper()
		name = filepath.Join(m.Dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(name)
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	plan := func(name string) ([]setup.Change, error) {
		kinds, err := m.Kinds([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		return m.Plan(kinds, vars)
	}
	link(out, "AGENTS.md")
	if _, err := plan("agents.md"); err == nil || !strings.Contains(err.Error(), "leads to ") || !strings.Contains(err.Error(), "bashrc") {
		t.Errorf("a link out of the folder: %v", err)
	}
	link(filepath.Dir(out), ".claude/skills") // its file is not there yet
	if _, err := plan("skill"); err == nil || !strings.Contains(err.Error(), "leads to ") {
		t.Errorf("a folder that is a link out of it: %v", err)
	}
	write(t, filepath.Join(m.Dir, "CLAUDE.md"), "# Ours\n")
	link("CLAUDE.md", "AGENTS.md")
	changes, err := plan("agents.md")
	if err != nil || filepath.Base(changes[0].Leads) != "CLAUDE.md" {
		t.Errorf("a link in the folder: %+v, %v", changes, err)
	}
	link(out, "AGENTS.md")
	write(t, out, "# Ours\n")
	if err := m.Apply(t.Context(), changes); err == nil || read(t, out) != "# Ours\n" {
		t.Errorf("written through a link that leads elsewhere since: %v", err)
	}
	if here := planned(t, m, vars); here[0].Leads != "" {
		t.Errorf("a file that is no link leads to %s", here[0].Leads)
	}
	link(out, filepath.Join("..", ".gemini", ".env"))
	if own := planned(t, m, vars); filepath.Base(own[0].Leads) != "bashrc" || own[0].Path != path {
		t.Errorf("a link of the user's own: %+v", own)
	}
}
