package certs

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

// closed is the sealer of a vault that is locked.
type closed struct{}

func (closed) Seal(_, _ []byte) ([]byte, error) { return nil, errors.New("locked") }
func (closed) Open(_, _ []byte) ([]byte, error) { return nil, errors.New("locked") }

// While the key cannot be opened the certificate can be shown, and nothing be signed, made
// or replaced.
func TestTheCertificateIsShownWithoutTheKey(t *testing.T) {
	c, dir := newClock(), newDir(t)
	shown, err := New(Options{Dir: dir, Sealer: closed{}, Clock: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := shown.OpenToShow(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("without a root: %v", err)
	}
	if _, err := os.Stat(keyIn(dir)); !errors.Is(err, fs.ErrNotExist) || shown.RootPEM() != nil {
		t.Errorf("a root was made: %v", err)
	}
	made := open(t, dir, c)
	before, err := os.ReadFile(keyIn(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := shown.Open(t.Context()); err == nil {
		t.Fatal("it opens with a key that cannot be opened")
	}
	if err := shown.OpenToShow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if string(shown.RootPEM()) != string(made.RootPEM()) || shown.Fingerprint() != made.Fingerprint() {
		t.Error("another certificate is shown")
	}
	if err := shown.RefreshBundle(""); err != nil {
		t.Errorf("the bundle: %v", err)
	}
	if err := shown.Permit([]string{"api.example.com:443"}); err == nil {
		t.Error("hosts are permitted")
	}
	if leaf, err := shown.Leaf("api.example.com:443"); err == nil {
		t.Errorf("a leaf is made: %v", leaf.Leaf.Subject)
	}
	if after, err := os.ReadFile(keyIn(dir)); err != nil || string(after) != string(before) {
		t.Errorf("the root was replaced: %v", err)
	}
}
