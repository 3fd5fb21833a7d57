package policy_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/policy"
)

// tree writes files, by their path below a new folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	denies = "version: 1\nrules: [{name: denies, match: {action: a.b}, then: deny}]\n"
	allows = "version: 1\nrules: [{name: allows, match: {action: a.b}, then: allow}]\n"
)

func TestAFolderIsReadInTheOrderOfItsNames(t *testing.T) {
	for first, files := range map[string]map[string]string{
		"denies": {"10-a.yaml": denies, "20-b.yml": allows, "policy_test.yaml": "tests", "README.md": "words", ".git/x.yaml": "git's"},
		"allows": {"b/c.yaml": denies, "a/z.yaml": allows},
		"below":  {"a/z.yaml": allows, "a-b.yaml": strings.ReplaceAll(denies, "denies", "below")},
		"inside": {"a.yaml/b.yaml": strings.ReplaceAll(denies, "denies", "inside"), "b.yaml": allows},
	} {
		p, err := policy.Load(tree(t, files), nil)
		if err != nil {
			t.Fatal(err)
		}
		if v := p.Decide(question(t, "action=a.b")); v.Rule != first {
			t.Errorf("%v: %s decided, not %s", files, v.Rule, first)
		}
	}
}

// As a ConfigMap is mounted: the names are links into a hidden folder.
func TestAFolderOfLinks(t *testing.T) {
	root := tree(t, map[string]string{"..2026/p.yaml": denies})
	for link, to := range map[string]string{"..data": "..2026", "p.yaml": filepath.Join("..data", "p.yaml")} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := policy.Load(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := p.Decide(question(t, "action=a.b")); v.Rule != "denies" {
		t.Errorf("%+v", v)
	}
}

// A policy's folder may be a link, as to the checkout of now; rules behind a link below it would
// be left out, and are an error.
func TestALinkToAFolder(t *testing.T) {
	root := tree(t, map[string]string{"2026/a.yaml": denies, "2026/more/b.yaml": "version: 1\n"})
	current := filepath.Join(root, "current")
	if err := os.Symlink("2026", current); err != nil {
		t.Fatal(err)
	}
	p, err := policy.Load(current, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := p.Decide(question(t, "action=a.b")); v.Rule != "denies" {
		t.Errorf("%+v", v)
	}
	for _, want := range []string{current, filepath.Join(current, "a.yaml"), filepath.Join(current, "more", "b.yaml")} {
		if names := policy.Names(current); !slices.Contains(names, want) {
			t.Errorf("%s is not watched: %v", want, names)
		}
	}
	below := filepath.Join(root, "2026", "shared")
	if err := os.Symlink(filepath.Join("..", "elsewhere"), below); err != nil {
		t.Fatal(err)
	}
	if _, err := policy.Load(current, nil); err != nil {
		t.Errorf("a link to nothing that is no policy: %v", err)
	}
	if err := os.Mkdir(filepath.Join(root, "elsewhere"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := policy.Load(current, nil); err == nil || !strings.Contains(err.Error(), "shared is a link to a folder") {
		t.Errorf("a link to a folder: %v", err)
	}
}

func TestAllProblemsOfAllFilesAreShown(t *testing.T) {
	root := tree(t, map[string]string{
		"a.yaml": "version: 1\nmode: report\ndefaults: {low: deny}\nrules: [{name: twice, match: {}, then: alow}]\n",
		"b.yaml": "version: 1\nmode: enforce\ndefaults: {low: allow, high: deny}\nrules: [{name: twice, match: {}, then: deny}]\n",
		"c.yaml": "version: 2\n",
	})
	_, err := policy.Load(root, nil)
	if err == nil {
		t.Fatal("taken for a policy")
	}
	a := filepath.Join(root, "a.yaml")
	for _, want := range []string{
		a + ":4:40: then cannot be \"alow\"",
		"b.yaml:2:7: mode is already in line 2 of " + a,
		"b.yaml:3:17: defaults.low is already in line 3 of " + a,
		"b.yaml:4:16: rule \"twice\" is already in line 4 of " + a,
		"c.yaml:1:10: version is not one this kimbap knows",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}

// What should be there and is not, or is not what it seems, opens nothing.
func TestFoldersThatAreNoPolicy(t *testing.T) {
	empty := t.TempDir()
	if _, err := policy.Load(empty, nil); err == nil || !strings.Contains(err.Error(), "has no policy in it") {
		t.Errorf("an empty folder: %v", err)
	}
	dangling := tree(t, map[string]string{"a.yaml": allows})
	if err := os.Symlink("nowhere", filepath.Join(dangling, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := policy.Load(dangling, nil); err == nil || !strings.Contains(err.Error(), "b.yaml is not a file") {
		t.Errorf("a link to nothing: %v", err)
	}
	if p, err := policy.Load(filepath.Join(empty, "no\x00name"), nil); err == nil {
		t.Errorf("what cannot be looked for is taken for the default: %v", p)
	}
}

// A policy that changes while it is read is not the one that is not there, whose defaults are
// in force then.
func TestWhatGoesWhileItIsReadIsNoAbsence(t *testing.T) {
	for name, gone := range map[string]string{"a file that was listed": "a.yaml", "a folder that was listed": "c", "the whole folder": "."} {
		root := tree(t, map[string]string{"a.yaml": denies, "b.yaml": denies, "c/d.yaml": denies})
		_, err := policy.ReadWanted(root, func(name string) bool {
			if name == "b.yaml" {
				if err := os.RemoveAll(filepath.Join(root, gone)); err != nil {
					t.Error(err)
				}
			}
			return true
		})
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A link that leads to nothing, as to a volume that is not mounted, says where the policy is.
func TestALinkToNothingIsNoAbsence(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "policies", "policy.yaml")
	if _, err := policy.Load(path, nil); err != nil {
		t.Error(err)
	}
	for _, link := range []string{filepath.Dir(path), filepath.Join(folder, "policy.yaml")} {
		if err := os.Symlink("volume", link); err != nil {
			t.Fatal(err)
		}
		if p, err := policy.Load(path, nil); err == nil {
			t.Errorf("%s: %v", link, p)
		}
		path = filepath.Join(folder, "policy.yaml")
	}
}

func TestNamesAreWhatToWatch(t *testing.T) {
	root := tree(t, map[string]string{"a.yaml": allows, "sub/deep/b.yaml": denies, "other.txt": ""})
	var got []string
	for _, name := range policy.Names(root + "/") {
		rel, err := filepath.Rel(root, name)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, filepath.ToSlash(rel))
	}
	if want := ". a.yaml sub/deep sub sub/deep/b.yaml"; strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, " "), want)
	}
}
