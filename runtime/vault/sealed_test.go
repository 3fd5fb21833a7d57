package vault_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// VC-001: of a million things sealed under one key no two have one nonce, so
// equal values have different ciphertexts.
func TestNoncesAreFresh(t *testing.T) {
	const many = 1_000_000
	r := newRig(t)
	seen := make([][12]byte, many)
	for i := range seen {
		sealed, err := r.SealFor(t.Context(), tenant, "test", []byte("same"), nil)
		if err != nil {
			t.Fatal(err)
		}
		seen[i] = [12]byte(sealed[1:13])
	}
	slices.SortFunc(seen, func(a, b [12]byte) int { return bytes.Compare(a[:], b[:]) })
	if distinct := len(slices.Compact(seen)); distinct != many {
		t.Fatalf("%d nonces came twice", many-distinct)
	}
}

// VC-002, VC-003, G13: a sealed secret opens in its own place only, and with
// its own hosts.
func TestSwapsDoNotOpen(t *testing.T) {
	for name, swap := range map[string]func(r rig){
		"another name's ciphertext": func(r rig) {
			other, _, _ := r.store.Secret(context.Background(), tenant, "pay.key")
			r.store.edit(tenant, "gh.token", func(row *vault.Sealed) { row.Ciphertext = other.Ciphertext })
		},
		"another name's row": func(r rig) {
			other, _, _ := r.store.Secret(context.Background(), tenant, "pay.key")
			r.store.edit(tenant, "gh.token", func(row *vault.Sealed) { *row = other })
		},
		"another tenant's row": func(r rig) {
			other, _, _ := r.store.Secret(context.Background(), "b", "gh.token")
			r.store.edit(tenant, "gh.token", func(row *vault.Sealed) { *row = other })
		},
		"another tenant's row and key": func(r rig) {
			other, _, _ := r.store.Secret(context.Background(), "b", "gh.token")
			r.store.edit(tenant, "gh.token", func(row *vault.Sealed) { *row = other })
			r.store.keys[tenant] = r.store.keys["b"]
		},
		"one more host": func(r rig) {
			edit(r, func(row *vault.Sealed) { row.Authorities = append(row.Authorities, "evil:443") })
		},
		"another host": func(r rig) { edit(r, func(row *vault.Sealed) { row.Authorities = []string{"evil:443"} }) },
		"no host":      func(r rig) { edit(r, func(row *vault.Sealed) { row.Authorities = nil }) },
		"joined hosts": func(r rig) {
			edit(r, func(row *vault.Sealed) { row.Authorities = []string{strings.Join(row.Authorities, "")} })
		},
		"another version": func(r rig) { edit(r, func(row *vault.Sealed) { row.Version++ }) },
		"no ciphertext":   func(r rig) { edit(r, func(row *vault.Sealed) { row.Ciphertext = nil }) },
		"cut": func(r rig) {
			edit(r, func(row *vault.Sealed) { row.Ciphertext = row.Ciphertext[:len(row.Ciphertext)-1] })
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.set(t, tenant, "gh.token", canary, "a.example:443", "b.example:443")
			r.set(t, tenant, "pay.key", "other")
			r.set(t, "b", "gh.token", "theirs", "a.example:443", "b.example:443")
			swap(r)
			r.refused(t, "gh.token", runtime.ReasonTampered)
		})
	}
}

func edit(r rig, change func(row *vault.Sealed)) { r.store.edit(tenant, "gh.token", change) }

// VC-003: a secret that stands under another name, or another tenant, is not taken for
// one that is missing: the caller's own key would pass.
func TestADisplacedSecretIsNoMissingOne(t *testing.T) {
	for name, to := range map[string]place{
		"another name":          {tenant, "gh.tokeo"},
		"a tenant of no key":    {"defauls", "gh.token"},
		"a tenant without name": {"", "gh.token"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.set(t, tenant, "gh.token", canary)
			r.set(t, tenant, "pay.key", "other")
			r.set(t, "b", "gh.token", "theirs")
			r.Forget()
			for range 2 { // nothing is missing while all is in its place
				if c, err := r.Credential(t.Context(), tenant, bearer("never.set")); err != nil || c.Found() {
					t.Fatalf("a secret that was never stored: %v %v", c, err)
				}
			}
			r.store.keys[""] = r.store.keys["b"] // as after a rotation of the master key
			at := place{tenant, "gh.token"}
			r.store.rows[to] = r.store.rows[at]
			delete(r.store.rows, at)
			r.Forget()
			for range 2 {
				r.refused(t, "gh.token", runtime.ReasonTampered)
			}
			if got := r.value(t, tenant, "pay.key"); got != "other" {
				t.Errorf("a secret in its place: %q", got)
			}
			delete(r.store.rows, to) // as vault remove does
			r.Forget()
			if c, err := r.Credential(t.Context(), tenant, bearer("gh.token")); err != nil || c.Found() {
				t.Errorf("after it was removed: %v %v", c, err)
			}
		})
	}
}

// A secret that an index has lost is found among those of its tenant.
func TestALostSecretIsFound(t *testing.T) {
	r := newRig(t)
	r.set(t, tenant, "gh.token", canary)
	r.set(t, tenant, "pay.key", "other")
	r.store.lost = place{tenant, "gh.token"}
	r.Forget()
	if got := r.value(t, tenant, "gh.token"); got != canary {
		t.Errorf("the lost secret: %q", got)
	}
	edit(r, func(row *vault.Sealed) { row.Version++ })
	r.refused(t, "gh.token", runtime.ReasonTampered)
}

// VC-005: every flipped bit of a sealed secret or a wrapped key is noticed.
func TestEveryFlippedBitOfASealedSecretIsNoticed(t *testing.T) {
	r := newRig(t)
	r.set(t, tenant, "gh.token", canary)
	row := slices.Clone(r.store.rows[place{tenant, "gh.token"}].Ciphertext)
	wrapped := slices.Clone(r.store.keys[tenant][0].Wrapped)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 10_000 {
		sealed, key := slices.Clone(row), slices.Clone(wrapped)
		flipped := [][]byte{sealed, key}[i%2]
		bit := random.IntN(len(flipped) * 8)
		flipped[bit/8] ^= 1 << (bit % 8)
		edit(r, func(s *vault.Sealed) { s.Ciphertext = sealed })
		r.store.keys[tenant][0].Wrapped = key
		r.Forget()
		c, err := r.Credential(t.Context(), tenant, bearer("gh.token"))
		if c.Found() || runtime.AsError(err).Reason != runtime.ReasonTampered {
			t.Fatalf("flip %d of bit %d: %v %v", i, bit, c, err)
		}
	}
	edit(r, func(s *vault.Sealed) { s.Ciphertext = row })
	r.store.keys[tenant][0].Wrapped = wrapped
	r.Forget()
	if r.value(t, tenant, "gh.token") != canary {
		t.Error("the unchanged secret does not open")
	}
}

// VC-006: a wrong master key is refused before anything is written.
func TestWrongMasterKey(t *testing.T) {
	for name, spoil := range map[string]func(m *memory){
		"as it is":             func(*memory) {},
		"check value removed":  func(m *memory) { m.check = nil },
		"check value replaced": func(m *memory) { m.check = []byte("x") },
		"tenant key removed":   func(m *memory) { m.keys = map[runtime.Tenant][]vault.TenantKey{} },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.set(t, tenant, "gh.token", canary)
			spoil(r.store)
			before := fmt.Sprint(r.store.check, r.store.keys, r.store.rows)
			err := unopened(t, r.store, keyB, r.clock).Open(t.Context())
			wants(t, err, runtime.CodeVaultLocked, runtime.ReasonWrongMasterKey)
			if fmt.Sprint(r.store.check, r.store.keys, r.store.rows) != before {
				t.Error("something was written")
			}
		})
	}
	if r := newRig(t); unopened(t, r.store, keyA, r.clock).Open(t.Context()) != nil {
		t.Error("the right key is refused")
	}
}

func TestWhatWasSealedForOnePurposeOpensForNoOther(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	sealed, err := r.SealFor(ctx, tenant, "approval", []byte(canary), []byte("id-1"))
	if err != nil || strings.Contains(string(sealed), canary) {
		t.Fatal("not sealed", err)
	}
	if plain, err := r.OpenFor(ctx, tenant, "approval", sealed, []byte("id-1")); err != nil || string(plain) != canary {
		t.Errorf("opened %q, %v", plain, err)
	}
	r.set(t, tenant, "gh.token", canary)
	row, _, _ := r.store.Secret(ctx, tenant, "gh.token")
	for name, open := range map[string]func() ([]byte, error){
		"other aad":     func() ([]byte, error) { return r.OpenFor(ctx, tenant, "approval", sealed, []byte("id-2")) },
		"other purpose": func() ([]byte, error) { return r.OpenFor(ctx, tenant, "decision", sealed, []byte("id-1")) },
		"other tenant":  func() ([]byte, error) { return r.OpenFor(ctx, "b", "approval", sealed, []byte("id-1")) },
		"nothing":       func() ([]byte, error) { return r.OpenFor(ctx, tenant, "approval", nil, []byte("id-1")) },
		"a secret":      func() ([]byte, error) { return r.OpenFor(ctx, tenant, "secrets", row.Ciphertext, nil) },
		"by the master": func() ([]byte, error) { return r.Master().Open(sealed, []byte("id-1")) },
	} {
		if plain, err := open(); !errors.Is(err, vault.ErrTampered) || plain != nil {
			t.Errorf("%s: %q %v", name, plain, err)
		}
	}
	file, err := r.Master().Seal([]byte("ca key"), []byte("ca"))
	if err != nil {
		t.Fatal(err)
	}
	again := rigOver(t, r.store, keyA)
	if plain, err := again.Master().Open(file, []byte("ca")); err != nil || string(plain) != "ca key" {
		t.Errorf("the next process opened %q, %v", plain, err)
	}
}
