package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// won tells a first writer from one who met ErrConflict.
func won(err error) (bool, error) {
	if errors.Is(err, vault.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

func checkValue(t *testing.T, s Store) {
	value, err := s.CheckValue(t.Context())
	must(t, err)
	if value != nil {
		t.Fatalf("an empty store has a check value: %x", value)
	}
	first := together(t, 20, func(i int) (bool, error) {
		return won(s.SetCheckValue(t.Context(), fmt.Appendf(nil, "value %02d", i)))
	})
	if first != 1 {
		t.Errorf("%d of 20 were the first to set the check value", first)
	}
	kept, err := s.CheckValue(t.Context())
	must(t, err)
	if err := s.SetCheckValue(t.Context(), []byte("late")); !errors.Is(err, vault.ErrConflict) {
		t.Errorf("a second check value: %v, want ErrConflict", err)
	}
	again, err := s.CheckValue(t.Context())
	must(t, err)
	same(t, "check value", again, kept)
}

func tenantKeys(t *testing.T, s Store) {
	first := together(t, 20, func(i int) (bool, error) {
		return won(s.AddTenantKey(t.Context(), ours, fmt.Appendf(nil, "key %02d", i)))
	})
	if first != 1 {
		t.Errorf("%d of 20 were the first to add the tenant's key", first)
	}
	other, err := s.TenantKey(t.Context(), theirs)
	must(t, err)
	if other != nil {
		t.Errorf("one tenant's key is another's: %s", other)
	}
	must(t, s.AddTenantKey(t.Context(), theirs, []byte("theirs")))
	kept, err := s.TenantKey(t.Context(), theirs)
	must(t, err)
	same(t, "tenant key", string(kept), "theirs")
}

func aSecret(tenant runtime.Tenant, name string, version int) vault.Sealed {
	return vault.Sealed{
		Tenant: tenant, Name: name, Version: version, Authorities: []string{"b.example:443", "a.example:443"},
		Ciphertext: []byte{1, 0, 255, byte(version)}, Created: at(version), Expires: at(version + 60),
		Fingerprints: []string{"00ff", fmt.Sprintf("%02d", version)},
	}
}

func secrets(t *testing.T, s Store) {
	ctx := t.Context()
	for _, row := range []vault.Sealed{aSecret(ours, "b", 1), aSecret(ours, "a", 1), aSecret(theirs, "c", 1)} {
		must(t, s.PutSecret(ctx, row))
	}
	got, found, err := s.Secret(ctx, ours, "a")
	must(t, err)
	same(t, "secret", []any{found, got}, []any{true, aSecret(ours, "a", 1)})
	if _, found, err := s.Secret(ctx, ours, "c"); err != nil || found {
		t.Errorf("another tenant's secret: %v %v", found, err)
	}
	list, err := s.Secrets(ctx, ours)
	must(t, err)
	same(t, "secrets", list, []vault.Sealed{aSecret(ours, "a", 1), aSecret(ours, "b", 1)})

	removed, err := s.RemoveSecret(ctx, ours, "c")
	must(t, err)
	same(t, "removed another tenant's", removed, false)
	removed, err = s.RemoveSecret(ctx, ours, "a")
	must(t, err)
	same(t, "removed", removed, true)
	if _, found, err := s.Secret(ctx, ours, "a"); err != nil || found {
		t.Errorf("a removed secret: %v %v", found, err)
	}
}

func secretVersions(t *testing.T, s Store) {
	ctx := t.Context()
	for _, version := range []int{0, 2, -1} {
		if err := s.PutSecret(ctx, aSecret(ours, "a", version)); !errors.Is(err, vault.ErrConflict) {
			t.Errorf("version %d of a new name: %v, want ErrConflict", version, err)
		}
	}
	for version := 1; version <= 3; version++ {
		first := together(t, 10, func(int) (bool, error) { return won(s.PutSecret(ctx, aSecret(ours, "a", version))) })
		if first != 1 {
			t.Errorf("%d of 10 stored version %d", first, version)
		}
	}
	got, _, err := s.Secret(ctx, ours, "a")
	must(t, err)
	same(t, "newest", got, aSecret(ours, "a", 3))
}

func lastUses(t *testing.T, s Store) {
	ctx := t.Context()
	must(t, s.PutSecret(ctx, aSecret(ours, "a", 1)))
	must(t, s.PutSecret(ctx, aSecret(theirs, "a", 1)))
	must(t, s.Touch(ctx, ours, map[string]time.Time{"a": at(5), "never stored": at(5)}))
	must(t, s.Touch(ctx, ours, map[string]time.Time{"a": at(4)})) // late news
	must(t, s.Touch(ctx, ours, nil))
	for tenant, want := range map[runtime.Tenant]time.Time{ours: at(5), theirs: {}} {
		got, _, err := s.Secret(ctx, tenant, "a")
		must(t, err)
		same(t, "last use of "+string(tenant), got.LastUsed, want)
	}
	if _, found, err := s.Secret(ctx, ours, "never stored"); err != nil || found {
		t.Errorf("a use made a secret: %v %v", found, err)
	}
}

func changes(t *testing.T, s Store) {
	ctx := t.Context()
	last, err := s.Changes(ctx)
	must(t, err)
	step := func(what string, moves bool, do func() error) {
		t.Helper()
		must(t, do())
		now, err := s.Changes(ctx)
		must(t, err)
		if moves && now <= last || !moves && now != last {
			t.Errorf("%s: the counter went from %d to %d", what, last, now)
		}
		last = now
	}
	step("nothing", false, func() error { return nil })
	step("a tenant key", true, func() error { return s.AddTenantKey(ctx, ours, []byte("k")) })
	step("a secret", true, func() error { return s.PutSecret(ctx, aSecret(ours, "a", 1)) })
	step("its next version", true, func() error { return s.PutSecret(ctx, aSecret(ours, "a", 2)) })
	step("its last use", false, func() error { return s.Touch(ctx, ours, map[string]time.Time{"a": at(9)}) })
	step("its end", true, func() error { _, err := s.RemoveSecret(ctx, ours, "a"); return err })
	step("a token", true, func() error { return s.AddToken(ctx, aToken(ours, 1)) })
	step("its revocation", true, func() error { _, err := s.RevokeToken(ctx, ours, aToken(ours, 1).ID, at(1)); return err })
	step("an approval", false, func() error { return s.AddApproval(ctx, anApproval(ours, "a", 1)) })
}
