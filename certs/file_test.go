package certs

import (
	"bytes"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A root that clients may trust is never replaced; the error names the file.
func TestDamageIsRefusedAndNamed_TL007(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, dir, other string)
		file   string // in the message
		msg    string
	}{
		{"truncated key", func(t *testing.T, dir, _ string) {
			data := readFile(t, keyIn(dir))
			writeFile(t, keyIn(dir), data[:len(data)-40])
		}, keyFile, "is damaged"},
		{"empty key", func(t *testing.T, dir, _ string) { writeFile(t, keyIn(dir), nil) }, keyFile, "is damaged"},
		{"trailing data", func(t *testing.T, dir, _ string) {
			writeFile(t, keyIn(dir), append(readFile(t, keyIn(dir)), "more"...))
		}, keyFile, "is damaged"},
		{"one bit", func(t *testing.T, dir, _ string) {
			cert, rest := pem.Decode(readFile(t, keyIn(dir)))
			key, _ := pem.Decode(rest)
			key.Bytes[len(key.Bytes)/2] ^= 1
			writeFile(t, keyIn(dir), append(pem.EncodeToMemory(cert), pem.EncodeToMemory(key)...))
		}, keyFile, "sealed with another master key, or changed"},
		{"missing key", func(t *testing.T, dir, _ string) {
			if err := os.Remove(keyIn(dir)); err != nil {
				t.Fatal(err)
			}
		}, keyFile, "is missing"},
		{"other root's key file", func(t *testing.T, dir, other string) {
			writeFile(t, keyIn(dir), readFile(t, keyIn(other)))
		}, caFile, "does not match"},
		{"other root's sealed key", func(t *testing.T, dir, other string) {
			cert, _ := pem.Decode(readFile(t, keyIn(dir)))
			_, rest := pem.Decode(readFile(t, keyIn(other)))
			writeFile(t, keyIn(dir), append(pem.EncodeToMemory(cert), rest...))
		}, keyFile, "does not match"},
		{"other ca.pem", func(t *testing.T, dir, other string) {
			writeFile(t, filepath.Join(dir, caFile), readFile(t, filepath.Join(other, caFile)))
		}, caFile, "does not match"},
		{"ca.pem is text", func(t *testing.T, dir, _ string) {
			writeFile(t, filepath.Join(dir, caFile), []byte("hello"))
		}, caFile, "no PEM certificate"},
		{"readable key", func(t *testing.T, dir, _ string) {
			runtimetest.Open(t, keyIn(dir))
		}, keyFile, "other users can open it ("},
		{"open folder", func(t *testing.T, dir, _ string) {
			runtimetest.Open(t, dir)
		}, "", "other users can open it ("},
		{"key is a folder", func(t *testing.T, dir, _ string) {
			if err := os.Remove(keyIn(dir)); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(keyIn(dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}, keyFile, "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := newClock()
			dir, other := newDir(t), newDir(t)
			open(t, dir, clock)
			open(t, other, clock)
			c.damage(t, dir, other)
			before, _ := os.ReadFile(keyIn(dir))
			p := refusal(t, dir, 1, clock)
			if p.File != filepath.Join(dir, c.file) || !strings.Contains(p.Msg, c.msg) {
				t.Errorf("got %v", p)
			}
			if after, _ := os.ReadFile(keyIn(dir)); !bytes.Equal(before, after) {
				t.Error("the key was replaced")
			}
		})
	}
}

func TestWrongMasterKey(t *testing.T) {
	dir, c := newDir(t), newClock()
	open(t, dir, c)
	if p := refusal(t, dir, 2, c); p.File != keyIn(dir) || !strings.Contains(p.Msg, "another master key") || !strings.Contains(p.Fix, "mv ") {
		t.Errorf("%v", p)
	}
}

func TestAKeyOfAnotherUserIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" || os.Geteuid() != 0 {
		return // only root can give a file away
	}
	dir, c := newDir(t), newClock()
	open(t, dir, c)
	if err := os.Chown(keyIn(dir), 12345, -1); err != nil {
		t.Fatal(err)
	}
	if p := refusal(t, dir, 1, c); p.File != keyIn(dir) || !strings.Contains(p.Msg, "uid 12345") {
		t.Errorf("%v", p)
	}
}

func TestClockBeforeTheRoot(t *testing.T) {
	dir, c := newDir(t), newClock()
	open(t, dir, c)
	c.Add(-48 * time.Hour)
	if p := refusal(t, dir, 1, c); !strings.Contains(p.Msg, "not valid before") || !strings.Contains(p.Fix, "clock") {
		t.Errorf("%v", p)
	}
}

func TestLostCAFileComesBack(t *testing.T) {
	dir, c := newDir(t), newClock()
	a := open(t, dir, c)
	for _, name := range []string{caFile, bundleFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, dir, c)
	if b.Fingerprint() != a.Fingerprint() || !bytes.Equal(readFile(t, b.CAFile()), a.RootPEM()) || len(readFile(t, b.BundleFile())) == 0 {
		t.Error("the files are not what they were")
	}
}

func TestManyStartAtOnce(t *testing.T) {
	for range 5 {
		dir, c := newDir(t), newClock()
		prints := make([]string, 16)
		var group sync.WaitGroup
		for i := range prints {
			a, err := New(Options{Dir: dir, Sealer: newBox(t, 1), Clock: c.Now})
			if err != nil {
				t.Fatal(err)
			}
			group.Go(func() {
				if err := a.Open(t.Context()); err != nil {
					t.Error(err)
				}
				prints[i] = a.Fingerprint()
			})
		}
		group.Wait()
		for _, p := range prints {
			if p != prints[0] || p != open(t, dir, c).Fingerprint() {
				t.Fatalf("several roots: %v", prints)
			}
		}
	}
}

// Two real processes, the test binary itself.
func TestTwoProcessesMakeOneRoot_TL006(t *testing.T) {
	const childDir = "KIMBAP_CERTS_TEST_DIR"
	if dir := os.Getenv(childDir); dir != "" {
		a := open(t, dir, newClock())
		writeFile(t, filepath.Join(filepath.Dir(dir), a.Fingerprint()+"-"+filepath.Base(os.Getenv("KIMBAP_CERTS_TEST_NAME"))), nil)
		return
	}
	dir := newDir(t)
	var children []*exec.Cmd
	for _, name := range []string{"one", "two", "three"} {
		child := exec.Command(os.Args[0], "-test.run=^TestTwoProcessesMakeOneRoot_TL006$")
		child.Env = append(os.Environ(), childDir+"="+dir, "KIMBAP_CERTS_TEST_NAME="+name)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, child)
	}
	for _, child := range children {
		if err := child.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	want := open(t, dir, newClock()).Fingerprint()
	if notes, err := filepath.Glob(filepath.Join(filepath.Dir(dir), want+"-*")); err != nil || len(notes) != 3 {
		t.Errorf("%d of 3 processes have the root of the folder: %v %v", len(notes), notes, err)
	}
}

func count(bundle []byte, want []byte) (all, same int) {
	block, _ := pem.Decode(want)
	for rest := bundle; ; all++ {
		b, more := pem.Decode(rest)
		if b == nil {
			return all, same
		}
		if bytes.Equal(b.Bytes, block.Bytes) {
			same++
		}
		rest = more
	}
}

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
