package vault_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// keeper is a KeyWrapper in memory.
type keeper struct {
	keys []vault.MasterKey
	fail error // of Settle
}

func (k *keeper) Keys(context.Context) ([]vault.MasterKey, error) { return slices.Clone(k.keys), nil }

func (k *keeper) Next(context.Context) (vault.MasterKey, error) {
	k.keys = append(k.keys, vault.RandomMasterKey())
	return k.keys[len(k.keys)-1], nil
}

func (k *keeper) Settle(_ context.Context, key vault.MasterKey) error {
	if k.fail == nil {
		k.keys = []vault.MasterKey{key}
	}
	return k.fail
}

func newKeeper(t *testing.T, key string) *keeper {
	t.Helper()
	k, err := vault.ParseMasterKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &keeper{keys: []vault.MasterKey{k}}
}

// VC-009: after the rotation of a tenant's key every secret is under the new
// version, an old ciphertext needs the old version, which is still recorded, and
// what was sealed or hashed for other purposes stays as good as it was.
func TestRotateTenantKey(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	const many = 50
	for i := range many {
		r.set(t, tenant, fmt.Sprintf("n%02d", i), fmt.Sprint(canary, i))
	}
	r.set(t, "b", "n00", "theirs")
	held, err := r.SealFor(ctx, tenant, "approval", []byte("held"), []byte("id"))
	if err != nil {
		t.Fatal(err)
	}
	hash, err := r.HashKey(ctx, tenant)
	if err != nil {
		t.Fatal(err)
	}
	before := hash(canary)
	backup := r.store.rows[place{tenant, "n00"}]
	version, n, err := r.RotateTenantKey(ctx, tenant)
	if err != nil || version != 2 || n != many {
		t.Fatalf("version %d, %d secrets, %v", version, n, err)
	}
	for at, row := range r.store.rows {
		if want := map[runtime.Tenant]int{tenant: 2, "b": 1}[at.tenant]; row.KeyVersion != want {
			t.Errorf("%v is under version %d", at, row.KeyVersion)
		}
	}
	for i := range many {
		if got := r.value(t, tenant, fmt.Sprintf("n%02d", i)); got != fmt.Sprint(canary, i) {
			t.Errorf("secret %d: %q", i, got)
		}
	}
	again := rigOver(t, r.store, keyA)
	if again.value(t, tenant, "n01") != canary+"1" || again.value(t, "b", "n00") != "theirs" {
		t.Error("the next process does not open them")
	}
	if plain, err := again.OpenFor(ctx, tenant, "approval", held, []byte("id")); err != nil || string(plain) != "held" {
		t.Errorf("a held request: %q %v", plain, err)
	}
	if hash, err := again.HashKey(ctx, tenant); err != nil || hash(canary) != before {
		t.Errorf("a hash in the trail is of no use any more: %v", err)
	}
	newer, err := r.SealFor(ctx, tenant, "approval", []byte("held"), []byte("id"))
	if err != nil || bytes.Equal(newer, held) {
		t.Error(err)
	}
	// The backup says version 1, under which it opens, and under no other.
	edit := func(change func(row *vault.Sealed)) {
		r.store.edit(tenant, "n00", func(row *vault.Sealed) { *row = backup; change(row) })
		r.Forget()
	}
	edit(func(*vault.Sealed) {})
	if r.value(t, tenant, "n00") != canary+"0" {
		t.Error("a backup does not open under its own version")
	}
	for _, version := range []int{2, 3, 0, -1} {
		edit(func(row *vault.Sealed) { row.KeyVersion = version })
		r.refused(t, "n00", runtime.ReasonTampered)
	}
}

// A secret that does not open stops a rotation, which changes nothing.
func TestRotateTenantKeyRefusesWhatWasChanged(t *testing.T) {
	r := newRig(t)
	r.set(t, tenant, "a", canary)
	r.set(t, tenant, "b", canary)
	r.store.edit(tenant, "b", func(row *vault.Sealed) { row.Authorities = []string{"evil:443"} })
	before := fmt.Sprint(r.store.keys, r.store.rows)
	_, _, err := r.RotateTenantKey(t.Context(), tenant)
	wants(t, err, runtime.CodeVaultLocked, runtime.ReasonTampered)
	if fmt.Sprint(r.store.keys, r.store.rows) != before {
		t.Error("something was written")
	}
}

// Secrets stored, read and rotated at once: no ciphertext is left under a key
// that does not open it.
func TestRotationsBesideSets(t *testing.T) {
	r := newRig(t)
	other := rigOver(t, r.store, keyA)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := fmt.Sprint("n", i%3)
			for j := range 20 {
				if _, err := r.Set(context.Background(), tenant, name, runtime.NewSecret(fmt.Sprint(i, "-", j)), []string{host}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for range 10 {
			if _, _, err := other.RotateTenantKey(context.Background(), tenant); err != nil && runtime.CodeOf(err) != runtime.CodeStorageBusy {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	last := rigOver(t, r.store, keyA)
	for i := range 3 {
		if last.value(t, tenant, fmt.Sprint("n", i)) == "" {
			t.Errorf("n%d is gone", i)
		}
	}
}

func TestRotateMaster(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.set(t, tenant, "n", canary)
	r.set(t, "b", "n", "theirs")
	if _, _, err := r.RotateTenantKey(ctx, tenant); err != nil {
		t.Fatal(err)
	}
	file, err := r.Master().Seal([]byte("ca key"), []byte("ca"))
	if err != nil {
		t.Fatal(err)
	}
	running := rigOver(t, r.store, keyA) // another process
	running.value(t, tenant, "n")
	w := newKeeper(t, keyA)
	for range 3 {
		if _, err := r.RotateMaster(ctx, w); err != nil || len(w.keys) != 1 || !r.Uses(w.keys[0]) {
			t.Fatalf("%d keys are left, %v", len(w.keys), err)
		}
		if r.value(t, tenant, "n") != canary || r.value(t, "b", "n") != "theirs" {
			t.Error("a secret is lost")
		}
		if plain, err := r.Master().Open(file, []byte("ca")); err != nil || string(plain) != "ca key" {
			t.Errorf("a file of the home: %q %v", plain, err)
		}
		if plain, err := r.Master().Open(file, []byte("other")); !errors.Is(err, vault.ErrTampered) {
			t.Errorf("a file of the home under another name: %q %v", plain, err)
		}
	}
	wants(t, unopened(t, r.store, keyA, r.clock).Open(ctx), runtime.CodeVaultLocked, runtime.ReasonWrongMasterKey)
	wants(t, unopened(t, r.store, keyA, r.clock).Unlock(ctx, newKeeper(t, keyA).keys...), runtime.CodeVaultLocked, runtime.ReasonWrongMasterKey)

	// The other process goes on with what it has open, notices, and takes the new key.
	if running.value(t, tenant, "n") != canary {
		t.Error("a running process lost what it had open")
	}
	if stale, err := running.Stale(ctx); err != nil || !stale {
		t.Errorf("a rotation is not seen: %v", err)
	}
	running.Forget()
	_, err = running.Credential(ctx, tenant, bearer("n"))
	wants(t, err, runtime.CodeVaultLocked, runtime.ReasonWrongMasterKey) // not "tampered"
	_, err = running.SealFor(ctx, "new tenant", "x", nil, nil)
	wants(t, err, runtime.CodeVaultLocked, runtime.ReasonWrongMasterKey)
	if len(r.store.keys["new tenant"]) > 0 {
		t.Error("a key was stored under the old master key")
	}
	if err := running.Unlock(ctx, append(newKeeper(t, keyB).keys, w.keys...)...); err != nil || running.value(t, tenant, "n") != canary {
		t.Errorf("with the new key: %v", err)
	}
	if stale, err := running.Stale(ctx); err != nil || stale {
		t.Errorf("still stale: %v", err)
	}
}

// Whatever of a rotation fails, the vault opens with one of the keys that are
// kept, and only with one.
func TestRotateMasterFails(t *testing.T) {
	for name, spoil := range map[string]func(r rig, w *keeper){
		"the store": func(r rig, _ *keeper) { r.store.fail = errors.New("disk on fire") },
		"the place": func(_ rig, w *keeper) { w.fail = errors.New("disk on fire") },
		"a key that was changed": func(r rig, _ *keeper) {
			r.store.keys["b"] = []vault.TenantKey{{Tenant: "b", Version: 1, Wrapped: []byte("x")}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.set(t, tenant, "n", canary)
			w := newKeeper(t, keyA)
			spoil(r, w)
			if _, err := r.RotateMaster(t.Context(), w); err == nil {
				t.Fatal("it went well")
			}
			r.store.fail = nil
			open := 0
			for _, key := range w.keys {
				v := locks(t, r)
				if v.Unlock(t.Context(), key) == nil {
					open++
					if c, err := v.Credential(t.Context(), tenant, bearer("n")); err != nil || c.Value.Reveal() != canary {
						t.Error(err)
					}
				}
			}
			if open != 1 {
				t.Errorf("%d of %d keys open the vault", open, len(w.keys))
			}
		})
	}
}

func TestRotateSecret(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	if _, err := r.SetUntil(ctx, tenant, "n", runtime.NewSecret("old-value"), []string{host, "b.example:443"}, r.clock.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	version, err := r.Rotate(ctx, tenant, "n", runtime.NewSecret(canary), time.Time{})
	if err != nil || version != 2 {
		t.Fatalf("version %d, %v", version, err)
	}
	c, err := r.Credential(ctx, tenant, bearer("n"))
	if err != nil || c.Value.Reveal() != canary || len(c.Authorities) != 2 || c.Version != 2 {
		t.Errorf("%+v %v", c, err)
	}
	r.clock.Advance(2 * time.Hour)
	if r.value(t, tenant, "n") != canary {
		t.Error("the new value ends when the old one would have")
	}
	_, err = r.Rotate(ctx, tenant, "n", runtime.NewSecret(canary), time.Time{})
	wants(t, err, runtime.CodeInvalidInput, "")
	_, err = r.Rotate(ctx, tenant, "none", runtime.NewSecret(canary), time.Time{})
	wants(t, err, runtime.CodeInvalidInput, runtime.ReasonNotFound)
	_, err = r.Rotate(ctx, "b", "n", runtime.NewSecret(canary), time.Time{})
	wants(t, err, runtime.CodeInvalidInput, runtime.ReasonNotFound)
	_, err = r.Rotate(ctx, tenant, "n", runtime.Secret{}, time.Time{})
	wants(t, err, runtime.CodeInvalidInput, "")
	if len(r.store.rows) != 1 {
		t.Error("the old version is kept")
	}
}

// Rebind keeps value, reference and end, and nothing but Rebind widens a secret.
func TestOnlyRebindWidensASecret(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	if _, err := r.SetUntil(ctx, tenant, "n", runtime.NewSecret(canary), []string{host}, r.clock.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if v, err := r.Rebind(ctx, tenant, "n", []string{host, "b.example:443"}); err != nil || v != 2 {
		t.Fatalf("version %d, %v", v, err)
	}
	c, err := r.Credential(ctx, tenant, bearer("n"))
	if err != nil || c.Value.Reveal() != canary || !c.Allows("b.example:443") {
		t.Errorf("%+v %v", c, err)
	}
	r.clock.Advance(time.Hour)
	if r.value(t, tenant, "n") != "" {
		t.Error("it lives longer than it did")
	}
	_, err = r.Rebind(ctx, tenant, "none", []string{host})
	wants(t, err, runtime.CodeInvalidInput, runtime.ReasonNotFound)
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

// A process that is asked for a credential after a rotation, before it was told
// to forget, takes up the new keys by itself.
func TestRotationsAreTakenUpWhenNeeded(t *testing.T) {
	r := newRig(t)
	r.set(t, tenant, "n", canary)
	w := newKeeper(t, keyA)
	var other *vault.Vault
	renewed := 0
	key, err := vault.ParseMasterKey(keyA)
	if err == nil {
		other, err = vault.New(vault.Options{Store: r.store, Key: key, Clock: r.clock.Now, Renew: func(ctx context.Context) error {
			renewed++
			return other.Unlock(ctx, w.keys...)
		}})
	}
	if err == nil {
		err = other.Open(t.Context()) // has the tenant's first key open now
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, _, err := r.RotateTenantKey(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		if _, err := r.RotateMaster(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		held, err := r.SealFor(t.Context(), tenant, "approval", []byte("held"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := other.OpenFor(t.Context(), tenant, "approval", held, nil); err != nil || string(plain) != "held" {
			t.Errorf("what the other has sealed: %q %v", plain, err)
		}
		if c, err := other.Credential(t.Context(), tenant, bearer("n")); err != nil || c.Value.Reveal() != canary {
			t.Errorf("after a rotation: %v", err)
		}
		other.Forget()
		if c, err := other.Credential(t.Context(), tenant, bearer("n")); err != nil || c.Value.Reveal() != canary {
			t.Errorf("and forgotten: %v", err)
		}
	}
	if renewed != 3 {
		t.Errorf("the key was renewed %d times", renewed)
	}
	w.keys = newKeeper(t, keyB).keys // the place has another key: no way to go on
	if _, err := r.RotateMaster(t.Context(), newKeeper(t, keyA)); err != nil {
		t.Fatal(err)
	}
	other.Forget()
	_, err = other.Credential(t.Context(), tenant, bearer("n"))
	wants(t, err, runtime.CodeVaultLocked, runtime.ReasonWrongMasterKey)
}
