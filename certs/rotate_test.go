package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func rotate(t *testing.T, dir string, c *clock, overlap time.Duration) (*Authority, Rotation) {
	t.Helper()
	a, err := New(Options{Dir: dir, Sealer: newBox(t, 1), Clock: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	done, err := a.Rotate(context.Background(), overlap)
	if err != nil {
		t.Fatal(err)
	}
	return a, done
}

// trusts reports which roots the two files of a folder name.
func trusts(t *testing.T, dir string, root *x509.Certificate) (ca, bundle bool) {
	t.Helper()
	want := encodeCertificate(root.Raw)
	_, inCA := count(readFile(t, filepath.Join(dir, caFile)), want)
	_, inBundle := count(readFile(t, filepath.Join(dir, bundleFile)), want)
	return inCA == 1, inBundle == 1
}

func TestARunningAuthorityTakesUpTheNewRoot_TL011(t *testing.T) {
	dir, c := newDir(t), newClock()
	a := open(t, dir, c, "a.test:443")
	before := leaf(t, a, "a.test:443")
	old := a.Root()
	if changed, err := a.Refresh(); changed || err != nil {
		t.Fatalf("nothing was rotated: %t %v", changed, err)
	}
	b, done := rotate(t, dir, c, day)
	if done.Old != a.Fingerprint() || !done.Until.Equal(c.Now().Add(day)) || b.Fingerprint() == done.Old {
		t.Errorf("%+v", done)
	}
	if changed, err := a.Refresh(); !changed || err != nil {
		t.Fatalf("%t %v", changed, err)
	}
	after := leaf(t, a, "a.test:443")
	if a.Fingerprint() != b.Fingerprint() || verify(b, after, "a.test", c.Now()) == nil == (verify(b, before, "a.test", c.Now()) == nil) {
		t.Error("leaves do not lead to the new root")
	}
	if !bytes.Equal(a.RootPEM(), readFile(t, a.CAFile())) {
		t.Error("what is handed out is not what is in ca.pem")
	}
	for range 2 { // with the old root's time not over, and over
		ca, bundle := trusts(t, dir, old)
		newCA, newBundle := trusts(t, dir, a.Root())
		if overlap := c.Now().Before(done.Until); ca != overlap || bundle != overlap || !newCA || !newBundle {
			t.Errorf("overlap %t: old root in ca.pem %t, in bundle.pem %t", overlap, ca, bundle)
		}
		c.Add(day)
		changed, err := a.Refresh()
		if err != nil || a.RefreshBundle(a.BundleFile()) != nil {
			t.Fatal(err)
		}
		_ = changed
	}
	if leaf(t, a, "a.test:443") == nil || bytes.Contains(readFile(t, keyIn(dir)), []byte("PRIVATE")) {
		t.Error("the authority does not work on")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 4 {
		t.Errorf("files left behind: %v", entries)
	}
}

// What was signed for a host of no service is of the old root, and is not used for longer.
func TestHostsOfNoServiceGetTheNewRootToo(t *testing.T) {
	dir, c := newDir(t), newClock()
	a := opened(t, Options{Dir: dir, Sealer: newBox(t, 1), Clock: c.Now, AnyHost: true})
	leaf(t, a, "other.test:443")
	rotate(t, dir, c, day)
	if changed, err := a.Refresh(); !changed || err != nil {
		t.Fatal(changed, err)
	}
	if err := verify(a, leaf(t, a, "other.test:443"), "other.test", c.Now()); err != nil {
		t.Error(err)
	}
}

func TestRotationWithoutOverlap(t *testing.T) {
	dir, c := newDir(t), newClock()
	run := open(t, dir, c)
	old := run.Root()
	a, done := rotate(t, dir, c, 0)
	if ca, bundle := trusts(t, dir, old); ca || bundle || !done.Until.IsZero() {
		t.Errorf("the old root is trusted: %t %t %v", ca, bundle, done.Until)
	}
	if _, err := run.Refresh(); err != nil {
		t.Fatal(err)
	}
	c.Add(-time.Minute) // a clock that is set back does not bring back a root that may be stolen
	again := open(t, dir, c)
	if err := again.RefreshBundle(again.BundleFile()); err != nil || again.Fingerprint() != a.Fingerprint() {
		t.Error("the next start has another root:", err)
	}
	if ca, bundle := trusts(t, dir, old); ca || bundle || bytes.Contains(run.RootPEM(), encodeCertificate(old.Raw)) {
		t.Errorf("a minute earlier the old root is trusted: %t %t", ca, bundle)
	}
}

// Each step of a rotation may be the last one before the power goes.
func TestACutRotationIsFinishedByTheNextStart(t *testing.T) {
	for _, overlap := range []time.Duration{0, day} {
		dir, c := newDir(t), newClock()
		old := open(t, dir, c)
		rotate(t, dir, c, day)
		ca, bundle := readFile(t, old.CAFile()), readFile(t, old.BundleFile())
		a, _ := rotate(t, dir, c, overlap)
		writeFile(t, old.CAFile(), ca) // as if neither had been written
		writeFile(t, old.BundleFile(), bundle)
		b := open(t, dir, c)
		if err := b.RefreshBundle(b.BundleFile()); err != nil || b.Fingerprint() != a.Fingerprint() {
			t.Fatal(err)
		}
		if inCA, inBundle := trusts(t, dir, b.Root()); !inCA || !inBundle {
			t.Error("the files do not name the new root")
		}
		if inCA, inBundle := trusts(t, dir, old.Root()); inCA || inBundle {
			t.Error("the files name a root of two rotations ago")
		}
	}
}

// overseer keeps what clients are told to trust when a new root is about to be put in place.
type overseer struct {
	box
	file string
	told []byte
}

func (o *overseer) Seal(plain, aad []byte) ([]byte, error) {
	o.told, _ = os.ReadFile(o.file)
	return o.box.Seal(plain, aad)
}

// So may it be twice in a row, with no start between: ca.pem never shows a root that root.key
// has forgotten, which no start would take.
func TestTwoCutRotationsAreFinishedByTheNextStart(t *testing.T) {
	dir, c := newDir(t), newClock()
	old := open(t, dir, c)
	for range 2 {
		sees := &overseer{box: newBox(t, 1), file: old.CAFile()}
		a, err := New(Options{Dir: dir, Sealer: sees, Clock: c.Now})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Rotate(t.Context(), day); err != nil {
			t.Fatal(err)
		}
		writeFile(t, old.CAFile(), sees.told) // as if it had not been written
	}
	b := open(t, dir, c)
	if inCA, _ := trusts(t, dir, b.Root()); !inCA {
		t.Error("ca.pem does not name the new root")
	}
}

// A root that cannot be used ends the old one all the same.
func TestANewRootThatCannotBeOpenedStopsTheOldOne(t *testing.T) {
	dir, c := newDir(t), newClock()
	a := open(t, dir, c, "a.test:443")
	leaf(t, a, "a.test:443")
	other, err := New(Options{Dir: dir, Sealer: newBox(t, 2), Clock: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Rotate(t.Context(), day); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if changed, err := a.Refresh(); changed || err == nil || !strings.Contains(err.Error(), "another master key") {
			t.Errorf("%t %v", changed, err)
		}
		if _, err := a.Leaf("a.test:443"); !errors.Is(err, errNotPermitted) || a.Permits("a.test:443") {
			t.Errorf("it signs with a root that nobody trusts: %v", err)
		}
	}
	if err := a.Permit([]string{"b.test:443"}); err != nil {
		t.Error(err)
	}
	rotate(t, dir, c, day)
	if changed, err := a.Refresh(); !changed || err != nil {
		t.Fatalf("%t %v", changed, err)
	}
	if err := verify(a, leaf(t, a, "b.test:443"), "b.test", c.Now()); err != nil || a.Permits("a.test:443") {
		t.Errorf("after it was put right: %v", err)
	}
}

// A process that rotates writes other files after the one that decides, which takes a
// slow disk a while. No host is refused meanwhile; one that was stopped at it does
// not keep the old root at work.
func TestARotationUnderWayRefusesNoHost(t *testing.T) {
	dir, c := newDir(t), newClock()
	a := open(t, dir, c, "a.test:443")
	rotate(t, dir, c, day)
	unlock, err := a.files().lock(lockWait)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if changed, err := a.Refresh(); changed || err != nil {
		t.Errorf("%t %v", changed, err)
	}
	leaf(t, a, "a.test:443")
	c.Add(takenWait)
	if _, err := a.Refresh(); err == nil || a.Permits("a.test:443") {
		t.Errorf("the old root works on: %v", err)
	}
	unlock()
	if changed, err := a.Refresh(); !changed || err != nil {
		t.Fatalf("%t %v", changed, err)
	}
	if err := verify(a, leaf(t, a, "a.test:443"), "a.test", c.Now()); err != nil {
		t.Error(err)
	}
}

// Who is told to restore the file from a backup does so, and the old root works on.
func TestARootThatComesBackIsTakenUpAgain(t *testing.T) {
	dir, c := newDir(t), newClock()
	a := open(t, dir, c, "a.test:443")
	key, ca := readFile(t, keyIn(dir)), readFile(t, a.CAFile())
	other, err := New(Options{Dir: dir, Sealer: newBox(t, 2), Clock: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Rotate(t.Context(), day); err != nil {
		t.Fatal(err)
	}
	var problem *FileError
	if _, err := a.Refresh(); !errors.As(err, &problem) || !strings.Contains(problem.Fix, "restore the file from a backup") {
		t.Fatalf("%v", err)
	}
	writeFile(t, keyIn(dir), key)
	writeFile(t, a.CAFile(), ca)
	if changed, err := a.Refresh(); !changed || err != nil {
		t.Fatalf("%t %v", changed, err)
	}
	if err := verify(a, leaf(t, a, "a.test:443"), "a.test", c.Now()); err != nil {
		t.Error(err)
	}
}

// What names no other root leaves the old one at work: clients trust it still.
func TestALostOrDamagedKeyLeavesTheOldRootAtWork(t *testing.T) {
	for _, damage := range []func(dir string) error{
		func(dir string) error { return os.Remove(keyIn(dir)) },
		func(dir string) error { return os.WriteFile(keyIn(dir), []byte("x"), 0o600) },
	} {
		dir, c := newDir(t), newClock()
		a := open(t, dir, c, "a.test:443")
		c.Add(time.Second)
		if err := damage(dir); err != nil {
			t.Fatal(err)
		}
		if changed, _ := a.Refresh(); changed || verify(a, leaf(t, a, "a.test:443"), "a.test", c.Now()) != nil {
			t.Error("the root that clients trust is given up")
		}
	}
}

func TestAnExpiredRootIsReplaced(t *testing.T) {
	dir, c := newDir(t), newClock()
	old := open(t, dir, c)
	c.Add(rootLife + day)
	if p := refusal(t, dir, 1, c); !strings.Contains(p.Fix, "kimbap ca rotate") {
		t.Errorf("%v", p)
	}
	a, done := rotate(t, dir, c, day)
	if err := a.Permit([]string{"a.test:443"}); err != nil || done.Old != old.Fingerprint() {
		t.Fatal(err)
	}
	if err := verify(a, leaf(t, a, "a.test:443"), "a.test", c.Now()); err != nil {
		t.Error(err)
	}
}

func TestRotationsAtOnceEndWithOneRoot(t *testing.T) {
	dir, c := newDir(t), newClock()
	watching := open(t, dir, c, "a.test:443")
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() { rotate(t, dir, c, day) })
		group.Go(func() {
			_, _ = watching.Refresh() // may find the folder taken: it looks again
			if err := watching.RefreshBundle(""); err != nil {
				t.Error(err)
			}
			open(t, dir, c)
		})
	}
	group.Wait()
	last := open(t, dir, c)
	if _, err := watching.Refresh(); err != nil || watching.Fingerprint() != last.Fingerprint() {
		t.Errorf("the running one has another root (%v)", err)
	}
	if ca, bundle := trusts(t, dir, last.Root()); !ca || !bundle {
		t.Errorf("the last root is in ca.pem %t, in bundle.pem %t", ca, bundle)
	}
	if n, _ := count(readFile(t, last.CAFile()), last.RootPEM()); n != 2 {
		t.Errorf("%d roots in ca.pem", n)
	}
}

// Who is killed between the writing of a new root's key and its renaming leaves the key of a
// root that nobody ever uses. The next start and the next rotation remove it, and nothing
// else, and not while another still works on the folder.
func TestTheKeyThatAKilledRotationLeavesIsRemoved(t *testing.T) {
	dir, c := newDir(t), newClock()
	open(t, dir, c)
	files := rootFiles{dir: dir, sealer: newBox(t, 1)}
	cut := func() (left []string) {
		key, _, err := files.write(c.Now(), roots{})
		if err != nil {
			t.Fatal(err)
		}
		older, torn := filepath.Join(dir, ".new-77"), filepath.Join(dir, keyFile+".new-78")
		writeFile(t, older, readFile(t, key))
		writeFile(t, torn, nil)
		return []string{key, older, torn}
	}
	bundle := filepath.Join(dir, ".new-79") // which is written by who does not hold the lock
	writeFile(t, bundle, readFile(t, filepath.Join(dir, bundleFile)))
	there := func(when string, want bool, files ...string) {
		t.Helper()
		for _, file := range files {
			if _, err := os.Stat(file); (err == nil) != want {
				t.Errorf("%s: %s: %v", when, file, err)
			}
		}
	}
	left := cut()
	unlock, err := files.lock(lockWait)
	if err != nil {
		t.Fatal(err)
	}
	other, err := New(Options{Dir: dir, Sealer: newBox(t, 1), Clock: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.load(glanceWait, rootFiles.loadOrCreate); err == nil {
		t.Error("a folder that another works on was read")
	}
	there("while another works on the folder", true, left...)
	unlock()
	root := readFile(t, keyIn(dir))
	open(t, dir, c)
	there("after a start", false, left...)
	if !bytes.Equal(readFile(t, keyIn(dir)), root) {
		t.Error("the root was changed")
	}
	left = cut()
	rotate(t, dir, c, day)
	there("after a rotation", false, left...)
	there("at the end", true, bundle, keyIn(dir), filepath.Join(dir, caFile))
}

func TestWhatCannotBeRotated(t *testing.T) {
	if _, err := opened(t, Options{Clock: time.Now}).Rotate(t.Context(), day); err == nil {
		t.Error("a root in memory was rotated")
	}
	dir, c := newDir(t), newClock()
	open(t, dir, c)
	writeFile(t, keyIn(dir), []byte("hello"))
	a, err := New(Options{Dir: dir, Sealer: newBox(t, 1), Clock: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	var problem *FileError
	if _, err := a.Rotate(t.Context(), day); !errors.As(err, &problem) || problem.File != keyIn(dir) || string(readFile(t, keyIn(dir))) != "hello" {
		t.Errorf("a damaged key was replaced: %v", err)
	}
	fresh, done := rotate(t, newDir(t), c, day)
	if done.Old != "" || fresh.Fingerprint() == "" {
		t.Errorf("in an empty folder: %+v", done)
	}
}
