//go:build unix

package home

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What a link of the home leads to is outside of it, where nothing covers it by itself.
func TestWhereTheLinksOfAHomeLead(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := Folder{Dir: filepath.Join(dir, "home")}
	away := func(name string) string { return filepath.Join(dir, "away", name) }
	for _, folder := range []string{f.Dir, away("ca")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{away("config"), away("key"), away("db"), away("db-wal"), away("config"), f.SealedKey()} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{f.MasterKey(): "../away/key", f.Database(): away("db"), f.Config(): away("config"), f.CA(): away("ca"), f.WrappedKey(): away("none")} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := f.Elsewhere(), []string{away("config"), away("key"), away("db"), away("db-wal"), away("ca")}; !slices.Equal(got, want) {
		t.Errorf("they lead to %q, want %q", got, want)
	}
}
