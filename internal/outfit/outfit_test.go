package outfit

import (
	"errors"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

const root = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"

func TestTheFolderOfARunIsItsUsersAloneAndEndsWithIt(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	own := filepath.Join(t.TempDir(), "own.pem")
	if err := os.WriteFile(own, []byte(root), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Run{}.NewFolder([]byte(root), Environment{"SSL_CERT_FILE": own})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(f.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if goruntime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v", info.Mode())
	}
	place := f.Place()
	for _, file := range []string{place.CA, place.Bundle} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "CERTIFICATE") {
			t.Errorf("%s: %q, %v", file, text, err)
		}
	}
	f.Remove()
	if _, err := os.Stat(f.Dir); !os.IsNotExist(err) {
		t.Error("the folder is left behind")
	}
}

// TMPDIR may be relative to a folder that the program leaves.
func TestTheFilesOfARunHaveWholePaths(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("tmp", 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", "tmp")
	t.Setenv("TMP", "tmp")
	f, err := Run{}.NewFolder([]byte(root), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Remove()
	if place := f.Place(); !filepath.IsAbs(f.Dir) || !filepath.IsAbs(place.Bundle) {
		t.Errorf("they are in %s", f.Dir)
	}
}

func TestAFolderThatCannotBeFilledIsNotLeftBehind(t *testing.T) {
	above := t.TempDir()
	t.Setenv("TMPDIR", above)
	if _, err := (Run{}).NewFolder([]byte(root), Environment{"SSL_CERT_FILE": filepath.Join(above, "missing.pem")}); err == nil {
		t.Fatal("made without the user's roots")
	}
	if left, err := os.ReadDir(above); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// What keeps the files of a run from being made is the user's to mend, and no defect of
// kimbap.
func TestAFolderThatCannotBeMadeSaysWhatHelps(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct{ dir, roots, fix string }{
		{nowhere, "", "TMPDIR"},
		{t.TempDir(), nowhere, "SSL_CERT_FILE"},
	} {
		t.Setenv("TMPDIR", c.dir)
		t.Setenv("TMP", c.dir) // of Windows
		_, err := Run{}.NewFolder([]byte(root), Environment{"SSL_CERT_FILE": c.roots})
		var told *runtime.Error
		if !errors.As(err, &told) || told.Code != runtime.CodeInvalidInput || !strings.Contains(told.Hint, c.fix) || !strings.Contains(told.Msg, nowhere) {
			t.Errorf("%+v, %v", c, err)
		}
	}
}

func TestOnlyRealKeysAreSaidToBeReplaced(t *testing.T) {
	env := NewEnvironment([]string{"REAL=old", "REAL=sk_live", "SHOWN=placeholder", "EMPTY=", "odd", "=odd", "A=b=c"})
	if env["A"] != "b=c" || env["REAL"] != "sk_live" {
		t.Errorf("read %v", env)
	}
	notes := env.Replaced(map[string]string{"REAL": "placeholder", "SHOWN": "placeholder", "EMPTY": "placeholder", "UNSET": "placeholder"})
	if len(notes) != 1 || !strings.HasPrefix(notes[0], "REAL: ") {
		t.Errorf("said %q", notes)
	}
}

func TestAPlaceholderOfTheCatalogueStandsInWithoutItsService(t *testing.T) {
	known := Catalogue{{Name: "shop", Placeholders: map[string]string{"SHOP_KEY": "shop-placeholder"}}}
	installed := func(value string) (string, bool) { return "mine", value == "mine-placeholder" }
	here, nowhere := known.StandsIn(installed), known.StandsIn(nil)
	if !here("shop-placeholder") || !here("mine-placeholder") || here("sk_live") {
		t.Error("a placeholder is not told from a key")
	}
	if !nowhere("shop-placeholder") || nowhere("mine-placeholder") {
		t.Error("without services the catalogue's are the only ones")
	}
}

func TestGitIsKeptFromTheHostsOfLinkedGitServicesAlone(t *testing.T) {
	known := Catalogue{
		{Name: "hub", Authorities: []string{"api.hub.test:443"}},
		{Name: "hub-git", Authorities: []string{"hub.test:443", "hub.test:8443"}},
		{Name: "lab-git", Authorities: []string{"lab.test:443"}},
	}
	got := strings.Join(GitHosts(known.Hosts, []string{"hub", "hub-git", "gone-git"}), " ")
	if got != "hub.test hub.test:8443" {
		t.Errorf("hosts %q", got)
	}
}
