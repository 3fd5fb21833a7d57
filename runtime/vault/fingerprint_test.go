package vault_test

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

func fields(value string) iter.Seq[string] { return strings.FieldsSeq(value) }

// A stored value and its words are known again, to its own tenant only and only
// as long as it is stored; the store holds nothing of them.
func TestStoredValuesAreKnownByFingerprint(t *testing.T) {
	store := newMemory()
	key, err := vault.ParseMasterKey(keyA)
	if err != nil {
		t.Fatal(err)
	}
	v, err := vault.New(vault.Options{Store: store, Key: key, Clock: newRig(t).clock.Now, Words: fields})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	known := func(tenant runtime.Tenant, word string) bool {
		t.Helper()
		f, err := v.Known(t.Context(), tenant)
		if err != nil {
			t.Fatal(err)
		}
		return f != nil && f(word)
	}
	if f, err := v.Known(t.Context(), tenant); err != nil || f != nil {
		t.Errorf("an empty vault knows something: %v", err)
	}
	if _, err := v.Set(t.Context(), tenant, "pair", runtime.NewSecret("user-one passw0rd-two"), []string{host}); err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]bool{
		"user-one passw0rd-two": true, "user-one": true, "passw0rd-two": true, "passw0rd": false, "user-one passw0rd-tw": false, "": false,
	} {
		if known(tenant, word) != want {
			t.Errorf("%q is known: %v", word, !want)
		}
	}
	if known("other", "user-one") {
		t.Error("another tenant's value is known")
	}
	if _, err := v.Set(t.Context(), "other", "own", runtime.NewSecret("their-own"), []string{host}); err != nil {
		t.Fatal(err)
	}
	if !known("other", "their-own") || known(tenant, "their-own") {
		t.Error("the other tenant's own value is not known, or to everybody")
	}
	row, _, err := store.Secret(t.Context(), tenant, "pair")
	if err != nil || len(row.Fingerprints) != 3 || slices.ContainsFunc(row.Fingerprints, func(p string) bool { return len(p) != 32 }) {
		t.Errorf("%v, %v", row.Fingerprints, err)
	}
	again := newRig(t)
	if _, err := again.Known(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Remove(t.Context(), tenant, "pair"); err != nil {
		t.Fatal(err)
	}
	if known(tenant, "user-one") {
		t.Error("a value that was removed is still known")
	}
	locked, err := vault.New(vault.Options{Store: store, Clock: newRig(t).clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	e := (*runtime.Error)(nil)
	if _, err := locked.Known(t.Context(), tenant); !errors.As(err, &e) || e.Code != runtime.CodeVaultLocked {
		t.Errorf("a locked vault: %v", err)
	}
}

// BenchmarkKnown is what one word of a record costs.
func BenchmarkKnown(b *testing.B) {
	key, err := vault.ParseMasterKey(keyA)
	if err != nil {
		b.Fatal(err)
	}
	v, err := vault.New(vault.Options{Store: newMemory(), Key: key, Clock: newRig(b).clock.Now, Words: fields})
	if err == nil {
		err = v.Open(b.Context())
	}
	if err == nil {
		_, err = v.Set(b.Context(), tenant, "one", runtime.NewSecret(canary), []string{host})
	}
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		known, err := v.Known(b.Context(), tenant)
		if err != nil || known("some-word-0123") {
			b.Fatal(err)
		}
	}
}
