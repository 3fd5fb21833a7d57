//go:build unix

package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// Files of secrets that others can read are named by doctor with the mode and the way out of it: the
// master key's, and those that the configuration names.
func TestDoctorNamesOpenFilesOfSecrets(t *testing.T) {
	t.Parallel()
	dir, k := t.TempDir(), &apptest.Kimbap{Dir: filepath.Join(t.TempDir(), "home"), Log: &apptest.Buffer{}}
	key, proxy := filepath.Join(dir, "mk"), filepath.Join(dir, "proxy")
	for path, text := range map[string]string{key: strings.Repeat("ab", 32), proxy: "http://127.0.0.1:9"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := apptest.OptionsOver(k.Dir, "", k.Log, true)
	o.Env = []string{"KIMBAP_MASTER_KEY_FILE=" + key, "KIMBAP_PROXY_UPSTREAM_PROXY_FILE=" + proxy}
	a := apptest.OpenWith(t, o)
	found := func(check string) (f app.Finding) {
		for _, one := range a.Doctor(t.Context()) {
			if one.Check == check {
				f = one
			}
		}
		return f
	}
	if f := found("secret files"); f.Check != "" {
		t.Errorf("files of mode 0600: %+v", f)
	}
	if f := found("master key"); f.State != "ok" || !strings.Contains(f.Said, key) {
		t.Errorf("the file of the key: %+v", f)
	}
	for _, path := range []string{key, proxy} {
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if f := found("secret files"); f.State != "warn" || !strings.Contains(f.Said, path+" (mode 0644)") || f.Fix != "chmod 600 "+path {
			t.Errorf("%+v", f)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
