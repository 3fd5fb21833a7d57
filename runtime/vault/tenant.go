package vault

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/kimbap-run/kimbap/runtime"
)

// tenant is the opened key of a tenant, split by use. It is immutable.
type tenant struct {
	key     [keySize]byte
	secrets *Sealer
	hash    []byte   // HMAC key
	others  sync.Map // purpose → *Sealer
}

// tenant returns the opened key of a tenant, making one for a new tenant. A
// locked vault has none.
func (v *Vault) tenant(ctx context.Context, name runtime.Tenant) (*tenant, error) {
	k, memory := v.keys.Load(), v.memory.Load()
	if k == nil {
		return nil, locked()
	}
	if t, ok := memory.tenants.Load(name); ok {
		return t.(*tenant), nil
	}
	if name == "" {
		return nil, &runtime.Error{Code: runtime.CodeInternal, Msg: "a tenant without a name has no key"}
	}
	wrapped, err := v.o.Store.TenantKey(ctx, name)
	if err == nil && wrapped == nil {
		wrapped, err = v.newTenantKey(ctx, k, name)
	}
	if err != nil {
		return nil, unknowable(err)
	}
	key, err := k.wrap.Open(wrapped, fields("tenant key", string(name)))
	if err != nil || len(key) != keySize {
		return nil, tampered(fmt.Sprintf("the key of tenant %q", name))
	}
	t, err := newTenant(key)
	if err != nil {
		return nil, err
	}
	kept, _ := memory.tenants.LoadOrStore(name, t)
	return kept.(*tenant), nil
}

// newTenantKey stores a random key and returns the one that is stored: of two
// processes that try, one is first.
func (v *Vault) newTenantKey(ctx context.Context, k *keys, name runtime.Tenant) ([]byte, error) {
	var key [keySize]byte
	_, _ = rand.Read(key[:]) // never fails since Go 1.24
	defer clear(key[:])
	wrapped, err := k.wrap.Seal(key[:], fields("tenant key", string(name)))
	if err != nil {
		return nil, err
	}
	err = v.o.Store.AddTenantKey(ctx, name, wrapped)
	if errors.Is(err, ErrConflict) {
		return v.o.Store.TenantKey(ctx, name)
	}
	return wrapped, err
}

func newTenant(key []byte) (*tenant, error) {
	t := &tenant{key: [keySize]byte(key)}
	var err1, err2 error
	t.secrets, err1 = newSealer(key, "seal secrets")
	t.hash, err2 = derive(key, "hash values")
	return t, errors.Join(err1, err2)
}

// sealer returns the sealer of a purpose.
func (t *tenant) sealer(purpose string) (*Sealer, error) {
	if s, ok := t.others.Load(purpose); ok {
		return s.(*Sealer), nil
	}
	s, err := newSealer(t.key[:], "seal for "+purpose)
	if err == nil {
		t.others.Store(purpose, s)
	}
	return s, err
}

// SealFor seals plain under a key that only this tenant and purpose have. The
// purposes are names in the program's text, never data. The error is an
// *runtime.Error when the vault cannot be used now.
func (v *Vault) SealFor(ctx context.Context, tenant runtime.Tenant, purpose string, plain, aad []byte) ([]byte, error) {
	s, err := v.sealerFor(ctx, tenant, purpose)
	if err != nil {
		return nil, err
	}
	return s.Seal(plain, fields(string(tenant), purpose, string(aad)))
}

// OpenFor opens what [Vault.SealFor] sealed for the same tenant and purpose
// with the same aad. Other bytes are [ErrTampered]; an *runtime.Error means
// that the vault cannot be used now.
func (v *Vault) OpenFor(ctx context.Context, tenant runtime.Tenant, purpose string, sealed, aad []byte) ([]byte, error) {
	s, err := v.sealerFor(ctx, tenant, purpose)
	if err != nil {
		return nil, err
	}
	return s.Open(sealed, fields(string(tenant), purpose, string(aad)))
}

func (v *Vault) sealerFor(ctx context.Context, name runtime.Tenant, purpose string) (*Sealer, error) {
	t, err := v.tenant(ctx, name)
	if err != nil {
		return nil, err
	}
	return t.sealer(purpose)
}

// HashKey returns the keyed hash of a tenant: HMAC-SHA256 in lower hex, under a
// key that is used for nothing else. Equal values of one tenant have equal
// hashes; without the master key nobody can tell whose. The func is safe for
// concurrent use.
func (v *Vault) HashKey(ctx context.Context, tenant runtime.Tenant) (func(value string) string, error) {
	t, err := v.tenant(ctx, tenant)
	if err != nil {
		return nil, err
	}
	return func(value string) string {
		mac := hmac.New(sha256.New, t.hash)
		mac.Write([]byte(value))
		return hex.EncodeToString(mac.Sum(nil))
	}, nil
}
