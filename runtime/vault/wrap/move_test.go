package wrap_test

import (
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
