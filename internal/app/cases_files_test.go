package app_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// FP-001: no umask opens a file of the home or closes one to its owner.
func TestAHomeIsPrivateWhateverTheUmask(t *testing.T) {
	for _, umask := range []int{0, 0o077} {
		runtimetest.Umask(t, umask)
		k := apptest.New(t, apptest.Options{Policy: askDeletes})
		if a := k.Do(t, "GET https://"+apptest.Host+"/notes/1", ""); a.Status != 200 {
			t.Errorf("%d %+v", a.Status, a.Problem)
		}
		if a := k.Do(t, "DELETE https://"+apptest.Host+"/notes/1", ""); a.Problem.Code != "approval_pending" {
			t.Errorf("%d %+v", a.Status, a.Problem)
		}
		seen := map[string]bool{}
		err := filepath.WalkDir(k.Dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			seen[d.Name()] = true
			want := fs.FileMode(0o600)
			if d.IsDir() {
				want = 0o700
			}
			public := strings.Contains(path, "/ca/") && strings.HasSuffix(path, ".pem")
			if mode := info.Mode().Perm(); mode != want && !(public && mode == 0o644) {
				t.Errorf("umask %03o: %s has mode %04o", umask, path, mode)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"kimbap.db", "kimbap.db-wal", "kimbap.db-shm", "master.key", "root.key", "policy.yaml", "00000001.jsonl"} {
			if !seen[name] {
				t.Errorf("there is no %s: the test looks in the wrong place", name)
			}
		}
	}
}

// openHome opens a home as the user.
func openHome(t *testing.T, dir string, uid int) error {
	t.Helper()
	a, err := app.New(app.Options{Home: dir, UID: uid, Clock: time.Now, Log: zerolog.Nop()})
	if err == nil {
		if err = a.Open(t.Context()); err == nil {
			_ = a.Close()
		}
	}
	return err
}

// FP-002: a home that others can look into or that is not ours is not used, and
// the error says what to do.
func TestHomesOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(k.Dir, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dir string
		mode      fs.FileMode
		uid       int
		want      string
	}{
		{"ours", k.Dir, 0o700, os.Getuid(), ""},
		{"a link to ours", link, 0o700, os.Getuid(), ""},
		{"open to all", k.Dir, 0o777, os.Getuid(), "can be read by other users (mode 0777)"},
		{"open to the group", k.Dir, 0o710, os.Getuid(), "can be read by other users (mode 0710)"},
		{"a link to an open one", link, 0o755, os.Getuid(), "can be read by other users (mode 0755)"},
		{"somebody else's", k.Dir, 0o700, os.Getuid() + 1, "belongs to another user"},
		{"somebody else's, empty as it looks from outside", t.TempDir(), 0o700, os.Getuid() + 1, "belongs to another user"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.Chmod(k.Dir, c.mode); err != nil {
				t.Fatal(err)
			}
			err := openHome(t, c.dir, c.uid)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if err := os.Chmod(k.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

// FP-003: who can write the policy decides, so one that lies outside the home is
// refused when others can.
func TestAPolicyThatOthersCanWriteIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(askDeletes), 0o644); err != nil {
		t.Fatal(err)
	}
	k := apptest.New(t, apptest.Options{Config: "policy: {path: " + file + "}\n"})
	for mode, want := range map[fs.FileMode]string{0o644: "", 0o600: "", 0o664: "can be written", 0o646: "can be written"} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if err := openHome(t, k.Dir, os.Getuid()); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("mode %04o: got %v, want %q", mode, err, want)
		}
	}
}

// One in the home that is a link counts as what it leads to.
func TestALinkedPolicyThatOthersCanWriteIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	k := apptest.New(t, apptest.Options{})
	link := filepath.Join(k.Dir, "policy.yaml")
	if err := errors.Join(os.WriteFile(file, []byte(askDeletes), 0o600), os.Remove(link), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	if err := openHome(t, k.Dir, os.Getuid()); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := openHome(t, k.Dir, os.Getuid()); err == nil || !strings.Contains(err.Error(), "can be written") {
		t.Errorf("got %v", err)
	}
}

// No home is made in a folder of somebody else, who could put other files there.
func TestNoHomeIsMadeInAFolderOfSomebodyElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := apptest.OptionsOver(dir, "", &apptest.Buffer{}, true)
	o.UID++
	a, err := app.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("got %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("it holds %v, %v", entries, err)
	}
}
