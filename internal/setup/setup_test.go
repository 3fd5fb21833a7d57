package setup_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/internal/setup"
)

// machine is one with nothing written yet, and a file of settings with a user's line.
func machine(t *testing.T) (m setup.Machine, path string, vars []runner.Variable) {
	t.Helper()
	dir := t.TempDir()
	if _, err := (home.Folder{Dir: dir}).Create(); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, ".gemini", ".env")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, path, "MINE=1\n")
	return setup.Machine{Home: home.Folder{Dir: dir}, User: dir, Dir: dir}, path,
		[]runner.Variable{{Name: "HTTPS_PROXY", Value: "http://127.0.0.1:7788"}}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// planned is what would be written for gemini.
func planned(t *testing.T, m setup.Machine, vars []runner.Variable) []setup.Change {
	t.Helper()
	kinds, err := m.Kinds([]string{"Gemini"})
	if err != nil {
		t.Fatal(err)
	}
	changes, err := m.Plan(kinds, vars)
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

func apply(t *testing.T, m setup.Machine, changes []setup.Change, err error) {
	t.Helper()
	if err == nil {
		err = m.Apply(t.Context(), changes)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsTakenOutLeavesTheFileAsItWas(t *testing.T) {
	m, path, vars := machine(t)
	apply(t, m, planned(t, m, vars), nil)
	if text := read(t, path); !strings.Contains(text, "HTTPS_PROXY") || !strings.Contains(text, "MINE=1") {
		t.Fatalf("after the setup: %q", text)
	}
	if again := planned(t, m, vars); len(again) != 0 {
		t.Errorf("planned what is right already: %+v", again)
	}
	changes, err := m.Removal(nil)
	apply(t, m, changes, err)
	if text := read(t, path); text != "MINE=1\n" {
		t.Errorf("after the removal: %q", text)
	}
	if left, err := m.Removal(nil); err != nil || len(left) != 0 {
		t.Errorf("the book still has %+v, %v", left, err)
	}
}

// What somebody changed after it was shown, or where kimbap had written, stays theirs.
func TestAChangedFileIsLeftAlone(t *testing.T) {
	m, path, vars := machine(t)
	changes := planned(t, m, vars)
	write(t, path, "OTHER=2\n")
	if err := m.Apply(t.Context(), changes); err == nil || read(t, path) != "OTHER=2\n" {
		t.Errorf("written over a change: %v, %q", err, read(t, path))
	}
	apply(t, m, planned(t, m, vars), nil)
	edited := strings.ReplaceAll(read(t, path), "7788", "9999")
	write(t, path, edited)
	if _, err := m.Removal(nil); err == nil {
		t.Error("what was changed where kimbap had written is planned to be taken out")
	}
	states, err := m.States(vars)
	if err != nil || len(states) == 0 || states[0].State != "changed" {
		t.Errorf("states %+v, %v", states, err)
	}
	if err := m.Forget(t.Context(), path); err != nil || read(t, path) != edited {
		t.Errorf("forgetting: %v, %q", err, read(t, path))
	}
	if err := m.Forget(t.Context(), path); err == nil {
		t.Error("forgot what it does not know")
	}
}

// What several processes write for agents at once is all remembered, so that all of it can
// be taken out again.
func TestWhatIsWrittenAtOnceIsRemembered(t *testing.T) {
	m, _, vars := machine(t)
	var wg sync.WaitGroup
	for i := range 8 {
		one := m
		one.User = filepath.Join(m.User, fmt.Sprint(i))
		changes := planned(t, one, vars)
		wg.Go(func() {
			if err := one.Apply(t.Context(), changes); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if left, err := m.Removal(nil); err != nil || len(left) != 8 {
		t.Errorf("the book has %d of 8, %v", len(left), err)
	}
}

// The folder of a skill is kimbap's and goes with it; a project may have the same name.
func TestAProjectOfKimbapsNameStays(t *testing.T) {
	for name, want := range map[string]bool{"agents.md": true, "skill": false} {
		m, _, vars := machine(t)
		m.Dir = filepath.Join(m.User, "kimbap")
		kinds, err := m.Kinds([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		changes, err := m.Plan(kinds, vars)
		apply(t, m, changes, err)
		changes, err = m.Removal(nil)
		apply(t, m, changes, err)
		folder := filepath.Dir(kinds[0].Path(m.User, m.Dir))
		if _, err := os.Stat(folder); (err == nil) != want || filepath.Base(folder) != "kimbap" {
			t.Errorf("%s: %s is left: %v", name, folder, err == nil)
		}
	}
}

// Claude Code's settings are an object in JSON still when somebody has put a member beside what was
// the only one, and what is written there is no older for it.
func TestWhatIsTakenOutLeavesAnObject(t *testing.T) {
	m, _, vars := machine(t)
	path := filepath.Join(m.User, ".claude", "settings.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ was, old, with, left string }{
		"a member behind":               {"{}", "\n  }}", "\n  },\n  \"model\": \"opus\"\n}", "{\n  \"model\": \"opus\"\n}"},
		"a member before":               {"{}", "{\n  \"env\"", "{\n  \"model\": \"opus\",\n  \"env\"", "{\n  \"model\": \"opus\"}"},
		"a variable behind":             {"{\"env\": {}}", "7788\"}", "7788\",\n  \"MINE\": \"1\"}", "{\"env\": {\n  \"MINE\": \"1\"}}"},
		"a member behind, then another": {"{\"model\": \"opus\"}", "opus\"", "opus\", \"a\": 1", "{\"model\": \"opus\", \"a\": 1}"},
	} {
		write(t, path, c.was)
		kinds, err := m.Kinds([]string{"claude"})
		if err != nil {
			t.Fatal(err)
		}
		changes, err := m.Plan(kinds, vars)
		apply(t, m, changes, err)
		text := read(t, path)
		if !strings.Contains(text, c.old) {
			t.Fatalf("%s: %s", name, text)
		}
		write(t, path, strings.Replace(text, c.old, c.with, 1))
		if _, err := m.Plan(kinds, vars); err != nil {
			t.Errorf("%s: set up again: %v", name, err)
		}
		if states, err := m.States(vars); err != nil || name != "a member before" && states[0].State != "ok" {
			t.Errorf("%s: %+v %v", name, states, err)
		}
		changes, err = m.Removal([]string{"Claude"})
		apply(t, m, changes, err)
		if left := read(t, path); left != c.left {
			t.Errorf("%s: left %q", name, left)
		}
	}
}

func TestWhatIsTakenOutOfNothing(t *testing.T) {
	m, path, vars := machine(t)
	apply(t, m, planned(t, m, vars), nil)
	if _, err := m.Removal([]string{"gemni"}); err == nil || !strings.Contains(err.Error(), "gemni") {
		t.Errorf("a name that is none: %v", err)
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	changes, err := m.Removal([]string{"Gemini"})
	apply(t, m, changes, err)
	if _, err := os.Stat(filepath.Dir(path)); len(changes) != 1 || !os.IsNotExist(err) {
		t.Errorf("%+v: what its user had removed is there again: %v", changes, err)
	}
	if changes, err := m.Removal(nil); err != nil || len(changes) != 0 {
		t.Errorf("still remembered: %+v %v", changes, err)
	}
}
