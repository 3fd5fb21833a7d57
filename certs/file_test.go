package certs

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
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
		{"root of somebody else", func(t *testing.T, dir, _ string) {
			_, sealed := pem.Decode(readFile(t, keyIn(dir)))
			writeFile(t, keyIn(dir), append(encodeCertificate(upstreamCA(t, func(*x509.Certificate) {}).cert.Raw), sealed...))
		}, keyFile, "is damaged"},
		{"one that is no authority", func(t *testing.T, dir, _ string) {
			_, sealed := pem.Decode(readFile(t, keyIn(dir)))
			leafOfOurs := upstreamCA(t, func(c *x509.Certificate) { c.IsCA, c.ExtraExtensions = false, []pkix.Extension{marker()} })
			writeFile(t, keyIn(dir), append(encodeCertificate(leafOfOurs.cert.Raw), sealed...))
		}, keyFile, "is damaged"},
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
			followed(t, dir, p.Fix, clock)
		})
	}
}

// followed does what an advice says of a new authority, which must work, and leave what else is
// in the folder: what is installed in trust stores is remembered there.
func followed(t *testing.T, dir, fix string, c *clock) {
	t.Helper()
	_, advice, found := strings.Cut(fix, "a new authority that clients must trust anew: ")
	if !found {
		return
	}
	beside := filepath.Join(dir, "installed.json")
	writeFile(t, beside, []byte("[]"))
	if move, rest, found := strings.Cut(advice, ", then "); found {
		from, to, _ := strings.Cut(strings.TrimPrefix(move, "mv "), " ")
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
		advice = rest
	}
	if advice != "kimbap ca rotate" {
		t.Fatalf("%q is advised", fix)
	}
	a, _ := rotate(t, dir, c, day)
	if again := open(t, dir, c); again.Fingerprint() != a.Fingerprint() || string(readFile(t, beside)) != "[]" {
		t.Error("the new root is not there, or what was beside it is gone")
	}
}

func TestWrongMasterKey(t *testing.T) {
	dir, c := newDir(t), newClock()
	open(t, dir, c)
	if p := refusal(t, dir, 2, c); p.File != keyIn(dir) || !strings.Contains(p.Msg, "another master key") || !strings.Contains(p.Fix, "mv ") {
		t.Errorf("%v", p)
	} else {
		followed(t, dir, p.Fix, c)
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

// A root that was made while the clock was far ahead is not made good by setting a clock that is
// right by now.
func TestARootOfAClockThatWasAheadIsReplaced(t *testing.T) {
	dir, c := newDir(t), newClock()
	c.Add(64 * 365 * day)
	open(t, dir, c)
	c.Add(-64 * 365 * day)
	if p := refusal(t, dir, 1, c); !strings.Contains(p.Fix, "kimbap ca rotate") {
		t.Errorf("%v", p)
	}
	a, _ := rotate(t, dir, c, day)
	if err := a.Permit([]string{"a.test:443"}); err != nil {
		t.Fatal(err)
	}
	if err := verify(a, leaf(t, a, "a.test:443"), "a.test", c.Now()); err != nil {
		t.Error(err)
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
