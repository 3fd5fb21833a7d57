package certs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// What is in the way of the files that clients read is found before the root is replaced:
// else the next try would drop the root that they have.
func TestARotationThatCannotBeFinishedIsNotBegun(t *testing.T) {
	for _, name := range []string{caFile, bundleFile} {
		dir, c := newDir(t), newClock()
		before := open(t, dir, c)
		file := filepath.Join(dir, name)
		if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700)); err != nil {
			t.Fatal(err)
		}
		a, err := New(Options{Dir: dir, Sealer: newBox(t, 1), Clock: c.Now})
		if err != nil {
			t.Fatal(err)
		}
		var bad *FileError
		if _, err = a.Rotate(t.Context(), day); !errors.As(err, &bad) || bad.File != file || bad.Fix == "" || errors.As(err, new(*UnfinishedError)) {
			t.Errorf("a folder in the place of %s: %v", name, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
			t.Errorf("left behind: %v, %v", entries, err)
		}
		if again := open(t, dir, c); again.Fingerprint() != before.Fingerprint() {
			t.Errorf("%s: the root was replaced all the same", name)
		}
	}
}

// later is a sealer that opens nothing any more from some moment on.
type later struct {
	box
	shut bool
}

func (l *later) Open(sealed, aad []byte) ([]byte, error) {
	if l.shut {
		return nil, fs.ErrPermission
	}
	return l.box.Open(sealed, aad)
}

// Once the root is replaced an error says so, with both fingerprints, from an authority that
// was open before and from one that was not.
func TestARotationThatWasNotFinishedSaysSo(t *testing.T) {
	for _, before := range []bool{true, false} {
		dir, c := newDir(t), newClock()
		old := open(t, dir, c)
		box := &later{box: newBox(t, 1), shut: !before}
		a, err := New(Options{Dir: dir, Sealer: box, Clock: c.Now})
		if err != nil {
			t.Fatal(err)
		}
		if before {
			if err := a.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			box.shut = true
		}
		var half *UnfinishedError
		if _, err := a.Rotate(t.Context(), day); !errors.As(err, &half) || !errors.Is(err, fs.ErrPermission) {
			t.Fatalf("open before: %t: %v", before, err)
		}
		next := open(t, dir, c)
		if half.Old != old.Fingerprint() || half.New != next.Fingerprint() || half.New == half.Old {
			t.Errorf("it says %s in the place of %s, and the root is %s", half.New, half.Old, next.Fingerprint())
		}
		if inCA, inBundle := trusts(t, dir, old.Root()); !inCA || !inBundle {
			t.Errorf("the old root is trusted no more: %t %t", inCA, inBundle)
		}
	}
}

// A second rotation within the time of the first takes the first root out, and says which.
func TestARotationSaysWhichRootItDrops(t *testing.T) {
	dir, c := newDir(t), newClock()
	first := open(t, dir, c)
	if _, done := rotate(t, dir, c, day); done.Dropped != "" {
		t.Errorf("the first one drops %s", done.Dropped)
	}
	if _, done := rotate(t, dir, c, day); done.Dropped != first.Fingerprint() {
		t.Errorf("the second one drops %q, not %s", done.Dropped, first.Fingerprint())
	}
	c.Add(2 * day)
	if _, done := rotate(t, dir, c, day); done.Dropped != "" {
		t.Errorf("one whose time is over is dropped: %s", done.Dropped)
	}
}

// Who shows the certificate alone gives clients their copy all the same, and does not take
// another root for it.
func TestShowingWritesTheCopyForClients(t *testing.T) {
	c, dir := newClock(), newDir(t)
	made := open(t, dir, c)
	file := filepath.Join(dir, caFile)
	show := func() error {
		shown, err := New(Options{Dir: dir, Sealer: closed{}, Clock: c.Now})
		if err != nil {
			t.Fatal(err)
		}
		return shown.OpenToShow(t.Context())
	}
	if err := errors.Join(os.Remove(file), show()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(readFile(t, file), made.RootPEM()) {
		t.Error("ca.pem is not the root's")
	}
	writeFile(t, file, open(t, newDir(t), c).RootPEM())
	var bad *FileError
	if err := show(); !errors.As(err, &bad) || bad.File != file {
		t.Errorf("ca.pem of another authority: %v", err)
	}
}
