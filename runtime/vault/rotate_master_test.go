package vault_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// keeper is a KeyWrapper in memory.
type keeper struct {
	keys []vault.MasterKey
	fail error // of Settle
	none error // of Next
}

func (k *keeper) Keys(context.Context) ([]vault.MasterKey, error) { return slices.Clone(k.keys), nil }

func (k *keeper) Next(context.Context) (vault.MasterKey, error) {
	if k.none != nil {
		return vault.MasterKey{}, k.none
	}
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
		"the store":    func(r rig, _ *keeper) { r.store.fail = errors.New("disk on fire") },
		"the next key": func(_ rig, w *keeper) { w.none = errors.New("disk on fire") },
		"the place":    func(_ rig, w *keeper) { w.fail = errors.New("disk on fire") },
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
