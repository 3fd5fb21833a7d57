package vault_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

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

// overtaking is a store whose master key another process rotates before the next look at one thing.
type overtaking struct {
	*memory
	rotate func() // nil: none does
	checks int    // looks at the check value that come before
}

func (o *overtaking) overtake() {
	if rotate := o.rotate; rotate != nil {
		o.rotate = nil
		rotate()
	}
}

func (o *overtaking) CheckValue(ctx context.Context) ([]byte, error) {
	if o.checks--; o.checks == 0 {
		o.overtake()
	}
	return o.memory.CheckValue(ctx)
}

func (o *overtaking) RotateTenantKey(ctx context.Context, r vault.TenantRotation) error {
	o.overtake()
	return o.memory.RotateTenantKey(ctx, r)
}

// A rotation of the master key by another process, before that of a tenant's key, in the middle of it
// or while a vault is being opened, is taken up, and is no error.
func TestARotationOvertakesAnother(t *testing.T) {
	for name, c := range map[string]struct {
		checks int
		does   func(v *vault.Vault) error
	}{
		"a start": {1, func(v *vault.Vault) error { return v.Open(t.Context()) }},
		"a rotation": {0, func(v *vault.Vault) error {
			_, n, err := v.RotateTenantKey(t.Context(), tenant)
			if n != 1 {
				t.Errorf("%d secrets are sealed anew", n)
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.set(t, tenant, "n", canary)
			w := newKeeper(t, keyA)
			store := &overtaking{memory: r.store}
			var v *vault.Vault
			v, err := vault.New(vault.Options{Store: store, Clock: r.clock.Now, Renew: func(ctx context.Context) error { return v.Unlock(ctx, w.keys...) }})
			if err == nil {
				err = v.Unlock(t.Context(), w.keys...)
			}
			if err != nil {
				t.Fatal(err)
			}
			rotate := func() {
				if _, err := r.RotateMaster(t.Context(), w); err != nil {
					t.Error(err)
				}
			}
			store.rotate, store.checks = rotate, c.checks
			if err := c.does(v); err != nil || store.rotate != nil {
				t.Errorf("in the middle of it: %v", err)
			}
			rotate()
			if err := c.does(v); err != nil {
				t.Errorf("before it: %v", err)
			}
			if c, err := v.Credential(t.Context(), tenant, bearer("n")); err != nil || c.Value.Reveal() != canary {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}
