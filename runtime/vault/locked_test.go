package vault_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// locks returns a vault over the store that has no master key.
func locks(t *testing.T, r rig) *vault.Vault {
	t.Helper()
	v, err := vault.New(vault.Options{Store: r.store, Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return v
}

// A vault without a key denies: it opens, seals and hashes nothing, writes
// nothing, and does not take a stored credential for one that is not there.
func TestWithoutAKeyNothingOpens(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.set(t, tenant, "gh.token", canary)
	sealed, err := r.SealFor(ctx, tenant, "approval", []byte(canary), nil)
	if err != nil {
		t.Fatal(err)
	}
	v := locks(t, r)
	before := fmt.Sprint(r.store.check, r.store.keys, r.store.rows)
	for name, use := range map[string]func() error{
		"credential":     func() error { _, err := v.Credential(ctx, tenant, bearer("gh.token")); return err },
		"none stored":    func() error { _, err := v.Credential(ctx, tenant, bearer("no.such")); return err },
		"another tenant": func() error { _, err := v.Credential(ctx, "b", bearer("gh.token")); return err },
		"set": func() error {
			_, err := v.Set(ctx, tenant, "gh.token", runtime.NewSecret("x"), []string{host})
			return err
		},
		"seal":      func() error { _, err := v.SealFor(ctx, tenant, "approval", []byte("x"), nil); return err },
		"open":      func() error { _, err := v.OpenFor(ctx, tenant, "approval", sealed, nil); return err },
		"hash":      func() error { _, err := v.HashKey(ctx, tenant); return err },
		"seal file": func() error { _, err := v.Master().Seal([]byte("x"), nil); return err },
		"open file": func() error { _, err := v.Master().Open(sealed, nil); return err },
		"no key":    func() error { return v.Unlock(ctx, vault.MasterKey{}) },
	} {
		wants(t, use(), runtime.CodeVaultLocked, runtime.ReasonNoMasterKey)
		if t.Failed() {
			t.Fatal(name)
		}
	}
	if !v.Locked() || len(v.Live()) > 0 || fmt.Sprint(r.store.check, r.store.keys, r.store.rows) != before {
		t.Error("it was used or written to")
	}
	if c, err := v.Credential(ctx, tenant, &runtime.Auth{Type: runtime.AuthNone}); err != nil || c.Found() {
		t.Errorf("what needs no credential: %v %v", c, err)
	}
	if list, err := v.List(ctx, tenant); err != nil || len(list) != 1 {
		t.Errorf("the names: %v %v", list, err)
	}
}

// Only the key the vault was made with unlocks it.
func TestOnlyTheKeyOfTheVaultUnlocksIt(t *testing.T) {
	r := newRig(t)
	r.set(t, tenant, "gh.token", canary)
	v := locks(t, r)
	wrong, err1 := vault.ParseMasterKey(keyB)
	right, err2 := vault.ParseMasterKey(keyA)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	wants(t, v.Unlock(t.Context(), wrong), runtime.CodeVaultLocked, runtime.ReasonWrongMasterKey)
	if _, err := v.Credential(t.Context(), tenant, bearer("gh.token")); err == nil || !v.Locked() {
		t.Error("a wrong key has unlocked the vault")
	}
	r.store.fail = errors.New("disk on fire")
	wants(t, v.Unlock(t.Context(), right), runtime.CodeVaultLocked, runtime.ReasonStorageUnavailable)
	r.store.fail = nil
	if err := v.Unlock(t.Context(), right); err != nil || v.Locked() {
		t.Fatalf("the right key: %v", err)
	}
	if !v.Uses(right) || v.Uses(wrong) || v.Uses(vault.MasterKey{}) {
		t.Error("it says that it has another key")
	}
	if c, err := v.Credential(t.Context(), tenant, bearer("gh.token")); err != nil || c.Value.Reveal() != canary {
		t.Errorf("unlocked: %v", err)
	}
}

// A lock takes everything that was open; what is in use right now aside, nothing
// is handed out until the key is given again.
func TestLockTakesWhatWasOpen(t *testing.T) {
	r := newRig(t)
	r.set(t, tenant, "n", canary)
	r.value(t, tenant, "n")
	r.Lock()
	for range 2 {
		c, err := r.Credential(t.Context(), tenant, bearer("n"))
		wants(t, err, runtime.CodeVaultLocked, runtime.ReasonLocked)
		if c.Found() || !r.Locked() {
			t.Error("it is open")
		}
	}
	_, _, err := r.RotateTenantKey(t.Context(), tenant)
	wants(t, err, runtime.CodeVaultLocked, runtime.ReasonLocked)
	_, err = r.RotateMaster(t.Context(), newKeeper(t, keyA))
	wants(t, err, runtime.CodeVaultLocked, runtime.ReasonLocked)
	_, _, err = r.Export(t.Context(), tenant, nil, vault.Lockbox{Passphrase: runtime.NewSecret("long enough words")})
	wants(t, err, runtime.CodeVaultLocked, runtime.ReasonLocked)
	if err := r.Unlock(t.Context(), newKeeper(t, keyA).keys...); err != nil || r.value(t, tenant, "n") != canary {
		t.Errorf("unlocked: %v", err)
	}
	if err := r.SetLock(t.Context(), "me", 0); err != nil {
		t.Fatal(err)
	}
	if l, ordered, err := r.Ordered(t.Context()); err != nil || !ordered || l.By != "me" || l.Since.IsZero() {
		t.Errorf("%+v %v %v", l, ordered, err)
	}
	if err := r.SetLock(t.Context(), "me", time.Minute); err != nil {
		t.Fatal(err)
	}
	if l, ordered, err := r.Ordered(t.Context()); err != nil || !ordered || !l.Until.Equal(l.Since.Add(time.Minute)) {
		t.Errorf("for a minute: %+v %v %v", l, ordered, err)
	}
	r.clock.Advance(time.Minute)
	if _, ordered, err := r.Ordered(t.Context()); err != nil || ordered {
		t.Errorf("after the minute: %v %v", ordered, err)
	}
	if err := r.LiftLock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l, ordered, err := r.Ordered(t.Context()); err != nil || ordered || strings.Contains(l.By, "me") {
		t.Errorf("%+v %v %v", l, ordered, err)
	}
}
