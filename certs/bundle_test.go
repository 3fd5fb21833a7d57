package certs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBundle(t *testing.T) {
	c := newClock()
	dir := newDir(t)
	a, other := open(t, dir, c), open(t, newDir(t), c)
	corp, err := newRoot(c.Now(), rootLife)
	if err != nil {
		t.Fatal(err)
	}
	corpPEM := encodeCertificate(strip(t, corp))
	extra := filepath.Join(t.TempDir(), "corp.pem")
	writeFile(t, extra, bytes.Join([][]byte{[]byte("# corp\n"), corpPEM, corpPEM, a.RootPEM(), other.RootPEM()}, nil))

	got, err := Bundle(extra, a.RootPEM())
	if err != nil {
		t.Fatal(err)
	}
	if all, ours := count(got, a.RootPEM()); all != 2 || ours != 1 || !bytes.HasSuffix(got, a.RootPEM()) {
		t.Errorf("%d certificates, %d of ours", all, ours)
	}
	if _, corps := count(got, corpPEM); corps != 1 {
		t.Errorf("the user's root stands %d times", corps)
	}
	system, err := Bundle("", a.RootPEM())
	if err != nil {
		t.Fatal(err)
	}
	if _, ours := count(system, a.RootPEM()); ours != 1 {
		t.Error("our root is not in the bundle of the system")
	}

	empty := filepath.Join(t.TempDir(), "empty.pem")
	writeFile(t, empty, []byte("nothing here"))
	for name, file := range map[string]string{"missing": extra + ".none", "empty": empty, "folder": t.TempDir()} {
		if _, err := Bundle(file, a.RootPEM()); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Bundle("", []byte("no root")); err == nil {
		t.Error("a bundle without a root")
	}
}

func TestBundleIsRebuiltWhenStale(t *testing.T) {
	c := newClock()
	dir := newDir(t)
	a := open(t, dir, c)
	extra := filepath.Join(t.TempDir(), "corp.pem")
	refresh := func(file string) []byte {
		t.Helper()
		if err := a.RefreshBundle(file); err != nil {
			t.Fatal(err)
		}
		return readFile(t, a.BundleFile())
	}
	root := func() []byte {
		made, err := newRoot(c.Now(), rootLife)
		if err != nil {
			t.Fatal(err)
		}
		return encodeCertificate(strip(t, made))
	}
	writeFile(t, extra, root())
	first := refresh(extra)
	info, _ := os.Stat(a.BundleFile())
	if again := refresh(extra); !bytes.Equal(first, again) {
		t.Error("the same roots give another bundle")
	}
	if now, _ := os.Stat(a.BundleFile()); !os.SameFile(info, now) {
		t.Error("a fresh bundle is written again")
	}
	added := root()
	writeFile(t, extra, append(readFile(t, extra), added...))
	if _, n := count(refresh(extra), added); n != 1 {
		t.Error("a root that was added is not in the bundle")
	}
	// A shell that ran `kimbap env` names the bundle itself.
	if _, n := count(refresh(a.BundleFile()), added); n != 1 {
		t.Error("refreshing from a shell with our bundle lost the user's roots")
	}
	if _, n := count(refresh(""), added); n != 0 {
		t.Error("the user's roots stay after they were unset")
	}
	if got, want := refresh(a.BundleFile()), refresh(a.CAFile()); !bytes.Equal(got, want) {
		t.Error("our own files count as roots of the user")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 4 {
		t.Errorf("files left behind: %v", entries)
	}
}

// corpFile is a file of roots that are nobody's of ours.
func corpFile(t *testing.T, c *clock, dir string) (path string, text []byte) {
	t.Helper()
	made, err := newRoot(c.Now(), rootLife)
	if err != nil {
		t.Fatal(err)
	}
	path, text = filepath.Join(dir, "corp.pem"), encodeCertificate(strip(t, made))
	writeFile(t, path, text)
	return path, text
}

// Of a bundle that a kimbap has made, that of a run, the file it was made from is
// remembered: its own is gone with the run, and then anybody may put one there.
func TestABundleOfOursIsNoSource(t *testing.T) {
	c := newClock()
	a, other := open(t, newDir(t), c), open(t, newDir(t), c)
	file, corp := corpFile(t, c, t.TempDir())
	for name, source := range map[string]string{"corp": file, "system": ""} {
		roots, err := Bundle(source, other.RootPEM())
		if err != nil {
			t.Fatal(err)
		}
		run := filepath.Join(t.TempDir(), "bundle.pem")
		writeFile(t, run, MadeFrom(source, roots))
		if err := a.RefreshBundle(run); err != nil {
			t.Fatal(err)
		}
		_, planted := corpFile(t, c, t.TempDir())
		writeFile(t, run, planted)
		if err := a.RefreshBundle(a.BundleFile()); err != nil {
			t.Fatal(err)
		}
		text := readFile(t, a.BundleFile())
		_, theirs := count(text, planted)
		_, had := count(text, corp)
		_, foreign := count(text, other.RootPEM())
		if theirs != 0 || foreign != 0 || (had == 1) != (source != "") {
			t.Errorf("%s: %d planted, %d of another kimbap, %d of the company", name, theirs, foreign, had)
		}
	}
}

func TestBundleRemembersWhoseRootsItHas(t *testing.T) {
	c := newClock()
	a := open(t, newDir(t), c)
	here, elsewhere := t.TempDir(), t.TempDir()
	file, corp := corpFile(t, c, here)
	_, other := corpFile(t, c, elsewhere)
	has := func(want []byte) bool {
		t.Helper()
		_, n := count(readFile(t, a.BundleFile()), want)
		return n == 1
	}
	refresh := func(file string) {
		t.Helper()
		if err := a.RefreshBundle(file); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(here)
	refresh("corp.pem")
	t.Chdir(elsewhere)
	refresh(a.BundleFile())
	if !has(corp) || has(other) {
		t.Error("a relative name was taken for a file of another folder")
	}
	for name, spoil := range map[string]func() error{
		"gone":   func() error { return os.Remove(file) },
		"empty":  func() error { return os.WriteFile(file, nil, 0o600) },
		"folder": func() error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		refresh(a.BundleFile())
		if all, ours := count(readFile(t, a.BundleFile()), a.RootPEM()); ours != 1 || has(corp) {
			t.Errorf("%s: %d certificates, %d of ours", name, all, ours)
		}
		if err := a.RefreshBundle(file); err == nil {
			t.Errorf("%s: not said to who names it", name)
		}
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		writeFile(t, file, corp)
		if refresh(a.BundleFile()); !has(corp) {
			t.Errorf("%s: the file came back, and its roots did not", name)
		}
	}
	// Written by an older kimbap: it means another file in every folder.
	writeFile(t, a.BundleFile(), append([]byte(sourcePrefix+`"corp.pem"`+"\n"), a.RootPEM()...))
	if refresh(a.BundleFile()); has(other) {
		t.Error("roots of the folder that kimbap happens to be in")
	}
}

// strip makes a root of nobody's: the same key, without our mark.
func strip(t *testing.T, s signer) []byte {
	t.Helper()
	template := caTemplate("corp", s.cert.NotBefore, s.cert.NotAfter)
	template.ExtraExtensions = nil
	cert, err := sign(template, template, &s.key.PublicKey, s.key)
	if err != nil {
		t.Fatal(err)
	}
	return cert.Raw
}
