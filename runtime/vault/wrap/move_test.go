package wrap_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/runtime/vault/wrap"
)

// A move from one key service to another that is cut short leaves one file of each. Whichever
// key is in force, its service gives it, and says beside it that it cannot open the other one;
// a service that opens neither says so alone.
func TestAMoveBetweenKeyServicesThatIsCutShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master.wrapped")
	from, to := wrap.Service{Path: path, Cipher: startTransit(t).client(t, nil)}, wrap.Service{Path: path, Cipher: command("good")}
	keys := func(s wrap.Service, want ...vault.MasterKey) error {
		t.Helper()
		got, err := s.Keys(t.Context())
		if !slices.EqualFunc(got, want, vault.MasterKey.Same) {
			t.Fatalf("%d keys, %v; want %d", len(got), err, len(want))
		}
		return err
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	next := func(s wrap.Service) vault.MasterKey {
		t.Helper()
		key, err := s.Next(t.Context())
		ok(err)
		return key
	}
	settle := func(s wrap.Service, key vault.MasterKey) { t.Helper(); ok(s.Settle(t.Context(), key)) }

	first := next(from)
	settle(from, first)
	next(to)
	if runtime.CodeOf(keys(from, first)) != runtime.CodeVaultLocked {
		t.Error("the old service does not say that there is a file it cannot open")
	}
	refusedAs(t, keys(wrap.Service{Path: path, Cipher: command("fails")}), runtime.ReasonKeyUnavailable)
	settle(from, first) // the database had not changed yet
	ok(keys(from, first))

	second := next(to)
	refusedAs(t, keys(to, second), runtime.ReasonKeyUnavailable)
	if err := from.Settle(t.Context(), second); err == nil { // of which it has no file
		t.Error("the only file of the key in force would have gone")
	}
	settle(to, second) // the database has changed
	ok(keys(to, second))
}

// A move to one key service that was cut short and given up, with the key in a file or a
// keyring, left a file that another service cannot open: it blocks no move to that one. While
// a service does not work it stays, and so does one that nobody can read.
func TestAMoveThatWasGivenUpBlocksNoOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master.wrapped")
	if _, err := (wrap.Service{Path: path, Cipher: startTransit(t).client(t, nil)}).Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := func() string {
		text, err := os.ReadFile(path + ".next")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	was := left()
	_, err := wrap.Service{Path: path, Cipher: command("fails")}.Next(t.Context())
	refusedAs(t, err, runtime.ReasonKeyUnavailable)
	if left() != was {
		t.Error("a service that does not work took away what another one had kept")
	}
	to := wrap.Service{Path: path, Cipher: command("good")}
	key, err := to.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := to.Next(t.Context()); err != nil || !again.Same(key) {
		t.Errorf("the key that shall follow is another one when it is asked for again: %v", err)
	}
	if err := to.Settle(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if keys, err := to.Keys(t.Context()); err != nil || len(keys) != 1 || !keys[0].Same(key) {
		t.Errorf("%d keys, %v", len(keys), err)
	}
}
