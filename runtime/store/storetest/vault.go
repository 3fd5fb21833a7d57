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
	ctx := t.Context()
	if err := s.AddTenantKey(ctx, aKey(ours, 1), []byte("check")); !errors.Is(err, vault.ErrConflict) {
		t.Errorf("a key under a check value that is not there: %v, want ErrConflict", err)
	}
	must(t, s.SetCheckValue(ctx, []byte("check")))
	if err := s.AddTenantKey(ctx, aKey(ours, 1), []byte("other")); !errors.Is(err, vault.ErrConflict) {
		t.Errorf("a key under another check value: %v, want ErrConflict", err)
	}
	first := together(t, 20, func(i int) (bool, error) {
		return won(s.AddTenantKey(ctx, aKey(ours, 1), []byte("check")))
	})
	if first != 1 {
		t.Errorf("%d of 20 were the first to add the tenant's key", first)
	}
	other, err := s.TenantKeys(ctx, theirs)
	must(t, err)
	if len(other) != 0 {
		t.Errorf("one tenant's key is another's: %v", other)
	}
	must(t, s.AddTenantKey(ctx, aKey(theirs, 1), []byte("check")))
	kept, err := s.TenantKeys(ctx, theirs)
	must(t, err)
	same(t, "tenant key", kept, []vault.TenantKey{aKey(theirs, 1)})
	all, err := s.AllKeys(ctx)
	must(t, err)
	same(t, "all keys", all, []vault.TenantKey{aKey(ours, 1), aKey(theirs, 1)})
}

func aKey(tenant runtime.Tenant, version int) vault.TenantKey {
	return vault.TenantKey{Tenant: tenant, Version: version, Wrapped: fmt.Appendf(nil, "%s %d", tenant, version), Created: at(version)}
}

// furnish gives both tenants a key, without which they have no secrets.
func furnish(t *testing.T, s Store) {
	t.Helper()
	must(t, s.SetCheckValue(t.Context(), []byte("check")))
	must(t, s.AddTenantKey(t.Context(), aKey(ours, 1), []byte("check")))
	must(t, s.AddTenantKey(t.Context(), aKey(theirs, 1), []byte("check")))
}

// A rotation is made from what is stored, or it is refused and nothing changes.
func tenantRotations(t *testing.T, s Store) {
	ctx := t.Context()
	furnish(t, s)
	must(t, s.PutSecrets(ctx, aSecret(ours, "a", 1), aSecret(ours, "b", 1), aSecret(theirs, "a", 1)))
	under := func(name string, version int) vault.Sealed {
		row := aSecret(ours, name, version)
		row.KeyVersion, row.Ciphertext = 2, []byte("anew "+name)
		return row
	}
	good := func() vault.TenantRotation {
		return vault.TenantRotation{Key: aKey(ours, 2), Check: []byte("check"), Rows: []vault.Sealed{under("a", 1), under("b", 1)}}
	}
	for name, spoil := range map[string]func(r *vault.TenantRotation){
		"another check value": func(r *vault.TenantRotation) { r.Check = []byte("other") },
		"a version too many":  func(r *vault.TenantRotation) { r.Key.Version = 3 },
		"the same version":    func(r *vault.TenantRotation) { r.Key.Version = 1 },
		"a secret forgotten":  func(r *vault.TenantRotation) { r.Rows = r.Rows[:1] },
		"an older secret":     func(r *vault.TenantRotation) { r.Rows[1].Version = 0 },
		"an unknown secret":   func(r *vault.TenantRotation) { r.Rows[1].Name = "c" },
	} {
		r := good()
		spoil(&r)
		if err := s.RotateTenantKey(ctx, r); !errors.Is(err, vault.ErrConflict) {
			t.Errorf("%s: %v, want ErrConflict", name, err)
		}
		kept, err := s.Secrets(ctx, ours)
		must(t, err)
		same(t, name, kept, []vault.Sealed{aSecret(ours, "a", 1), aSecret(ours, "b", 1)})
	}
	must(t, s.RotateTenantKey(ctx, good()))
	kept, err := s.Secrets(ctx, ours)
	must(t, err)
	same(t, "rotated", kept, []vault.Sealed{under("a", 1), under("b", 1)})
	others, err := s.Secrets(ctx, theirs)
	must(t, err)
	same(t, "the other tenant's", others, []vault.Sealed{aSecret(theirs, "a", 1)})
	if err := s.PutSecrets(ctx, aSecret(ours, "a", 2)); !errors.Is(err, vault.ErrConflict) {
		t.Errorf("a secret under the old key: %v, want ErrConflict", err)
	}
	must(t, s.PutSecrets(ctx, under("a", 2)))
}

func masterRotations(t *testing.T, s Store) {
	ctx := t.Context()
	furnish(t, s)
	wrapped := func(tenant runtime.Tenant) vault.TenantKey {
		k := aKey(tenant, 1)
		k.Wrapped = []byte("anew " + string(tenant))
		return k
	}
	good := func() vault.MasterRotation {
		return vault.MasterRotation{
			From: []byte("check"), To: []byte("next"), Files: aKey("", 1), Keys: []vault.TenantKey{wrapped(ours), wrapped(theirs)},
		}
	}
	for name, spoil := range map[string]func(r *vault.MasterRotation){
		"another check value": func(r *vault.MasterRotation) { r.From = []byte("other") },
		"a key forgotten":     func(r *vault.MasterRotation) { r.Keys = r.Keys[:1] },
		"an unknown key":      func(r *vault.MasterRotation) { r.Keys[1].Version = 7 },
	} {
		r := good()
		spoil(&r)
		if err := s.RotateMaster(ctx, r); !errors.Is(err, vault.ErrConflict) {
			t.Errorf("%s: %v, want ErrConflict", name, err)
		}
		all, err := s.AllKeys(ctx)
		must(t, err)
		same(t, name, all, []vault.TenantKey{aKey(ours, 1), aKey(theirs, 1)})
	}
	must(t, s.RotateMaster(ctx, good()))
	all, err := s.AllKeys(ctx)
	must(t, err)
	same(t, "rotated", all, []vault.TenantKey{aKey("", 1), wrapped(ours), wrapped(theirs)})
	check, err := s.CheckValue(ctx)
	must(t, err)
	same(t, "check value", string(check), "next")
	if err := s.RotateMaster(ctx, good()); !errors.Is(err, vault.ErrConflict) {
		t.Errorf("a second time: %v, want ErrConflict", err)
	}
}

func locks(t *testing.T, s Store) {
	ctx := t.Context()
	want := vault.Lock{Since: at(1), By: "uid:1000"}
	if err := s.SetLock(ctx, want); !errors.Is(err, vault.ErrConflict) {
		t.Errorf("locking what was never opened: %v, want ErrConflict", err)
	}
	must(t, s.SetCheckValue(ctx, []byte("check")))
	for _, l := range []vault.Lock{{}, want, {Since: at(2), By: "uid:1000", Until: at(3)}, {}} {
		must(t, s.SetLock(ctx, l))
		got, err := s.Lock(ctx)
		must(t, err)
		same(t, "lock", got, l)
	}
}

func aSecret(tenant runtime.Tenant, name string, version int) vault.Sealed {
	return vault.Sealed{
		Tenant: tenant, Name: name, Version: version, KeyVersion: 1, Authorities: []string{"b.example:443", "a.example:443"},
		Ciphertext: []byte{1, 0, 255, byte(version)}, Created: at(version), Expires: at(version + 60),
		Fingerprints: []string{"00ff", fmt.Sprintf("%02d", version)},
	}
}

func secrets(t *testing.T, s Store) {
	ctx := t.Context()
	furnish(t, s)
	for _, row := range []vault.Sealed{aSecret(ours, "b", 1), aSecret(ours, "a", 1), aSecret(theirs, "c", 1)} {
		must(t, s.PutSecrets(ctx, row))
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

	must(t, s.AddTenantKey(ctx, aKey("", 1), []byte("check")))
	for i, stray := range []vault.Sealed{aSecret("keyless", "d", 1), aSecret("", "e", 1)} {
		n, err := s.Strays(ctx)
		must(t, err)
		same(t, "strays", n, i)
		stray.KeyVersion = i // the newest of its tenant, which for the first has none
		must(t, s.PutSecrets(ctx, stray))
	}
	n, err := s.Strays(ctx)
	must(t, err)
	same(t, "strays", n, 2)

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
	furnish(t, s)
	if err := s.PutSecrets(ctx, aSecret(ours, "c", 1), aSecret(ours, "a", 2)); !errors.Is(err, vault.ErrConflict) {
		t.Errorf("one of two is wrong: %v, want ErrConflict", err)
	}
	if _, found, err := s.Secret(ctx, ours, "c"); err != nil || found {
		t.Errorf("one of two was stored: %v %v", found, err)
	}
	for _, version := range []int{0, 2, -1} {
		if err := s.PutSecrets(ctx, aSecret(ours, "a", version)); !errors.Is(err, vault.ErrConflict) {
			t.Errorf("version %d of a new name: %v, want ErrConflict", version, err)
		}
	}
	for version := 1; version <= 3; version++ {
		first := together(t, 10, func(int) (bool, error) { return won(s.PutSecrets(ctx, aSecret(ours, "a", version))) })
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
	furnish(t, s)
	must(t, s.PutSecrets(ctx, aSecret(ours, "a", 1)))
	must(t, s.PutSecrets(ctx, aSecret(theirs, "a", 1)))
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
	usesOfBefore(t, s)
}

// usesOfBefore stores a value where another was, whose last use is told late: that was none of the
// new one. A renewed one, which was used already, goes on with it.
func usesOfBefore(t *testing.T, s Store) {
	ctx := t.Context()
	_, err := s.RemoveSecret(ctx, ours, "a")
	must(t, err)
	anew := aSecret(ours, "a", 1)
	anew.Created = at(20)
	must(t, s.PutSecrets(ctx, anew))
	uses := func(told, want time.Time) {
		t.Helper()
		must(t, s.Touch(ctx, ours, map[string]time.Time{"a": told}))
		got, _, err := s.Secret(ctx, ours, "a")
		must(t, err)
		same(t, "last use", got.LastUsed, want)
	}
	uses(at(19), time.Time{})
	uses(at(20), at(20))
	renewed := aSecret(ours, "a", 2)
	renewed.Created, renewed.LastUsed = at(30), at(20)
	must(t, s.PutSecrets(ctx, renewed))
	uses(at(29), at(29))
}

func changes(t *testing.T, s Store) {
	ctx := t.Context()
	must(t, s.SetCheckValue(ctx, []byte("check")))
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
	step("a tenant key", true, func() error { return s.AddTenantKey(ctx, aKey(ours, 1), []byte("check")) })
	step("a lock", true, func() error { return s.SetLock(ctx, vault.Lock{Since: at(1), By: "x"}) })
	step("a secret", true, func() error { return s.PutSecrets(ctx, aSecret(ours, "a", 1)) })
	step("its next version", true, func() error { return s.PutSecrets(ctx, aSecret(ours, "a", 2)) })
	step("its last use", false, func() error { return s.Touch(ctx, ours, map[string]time.Time{"a": at(9)}) })
	step("its end", true, func() error { _, err := s.RemoveSecret(ctx, ours, "a"); return err })
	step("a token", true, func() error { return s.AddToken(ctx, aToken(ours, 1)) })
	step("its longer life", true, func() error { _, err := s.ProlongToken(ctx, ours, aToken(ours, 1).ID, at(99)); return err })
	step("its revocation", true, func() error { _, err := s.RevokeToken(ctx, ours, aToken(ours, 1).ID, at(1)); return err })
	step("an approval", false, func() error { return s.AddApproval(ctx, anApproval(ours, "a", 1)) })
}
