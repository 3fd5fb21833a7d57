//go:build unix

package home_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kimbap-run/kimbap/internal/home"
)

// Somebody tidies up the folder of states, or puts an older one there. What lives says so
// again, under the name by which what it holds is known.
func TestAHolderStaysWhoseFileWasRemoved(t *testing.T) {
	f := states(t)
	self := f.Self()
	if err := self.Stay(); err != nil || len(files(t, f)) != 0 {
		t.Fatalf("it holds nothing yet: %v, %v", files(t, f), err)
	}
	name := self.Name()
	for what, tidy := range map[string]func() error{
		"file":   func() error { return os.Remove(filepath.Join(f.State(), files(t, f)[0])) },
		"folder": func() error { return os.RemoveAll(f.State()) },
	} {
		if err := tidy(); err != nil {
			t.Fatal(err)
		}
		if home.Alive(f.State(), name) {
			t.Fatalf("%s: nobody can know that it lives", what)
		}
		for range 2 {
			if err := self.Stay(); err != nil || !home.Alive(f.State(), name) || len(files(t, f)) != 1 {
				t.Errorf("%s: it lives: %v, %v", what, files(t, f), err)
			}
		}
	}
	if err := os.RemoveAll(f.Dir); err != nil {
		t.Fatal(err)
	}
	if err := self.Stay(); err == nil {
		t.Error("there is no home any more")
	}
	if _, err := os.Lstat(f.Dir); err == nil {
		t.Error("it made a home")
	}
	self.End()
	if err := self.Stay(); err != nil {
		t.Errorf("it has ended: %v", err)
	}
}
