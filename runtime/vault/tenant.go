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

// filesTenant has the keys that older master keys sealed files of the home with.
const filesTenant runtime.Tenant = ""

// tenant is the opened keys of a tenant. It is immutable. The newest seals; the
// older ones open what they have sealed.
type tenant struct {
	versions []*tenantKey // version n at n-1, never empty
	hash     []byte       // HMAC key, of the first version: hashes outlive rotations
}

// tenantKey is one version of a tenant's key, split by use.
type tenantKey struct {
	version int
	key     [keySize]byte
	secrets *Sealer
	others  sync.Map // purpose → *Sealer
}

func (t *tenant) newest() *tenantKey { return t.versions[len(t.versions)-1] }

// of returns the key of a stored version, nil when there is none.
func (t *tenant) of(version int) *tenantKey {
	if version < 1 || version > len(t.versions) {
		return nil
	}
	return t.versions[version-1]
}

// tenant returns the opened keys of a tenant, making one for a new tenant. A
// locked vault has none.
func (v *Vault) tenant(ctx context.Context, name runtime.Tenant) (*tenant, error) {
	return v.tenantWith(ctx, name, 0)
}

// tenantWith returns keys that include a version, if there is one: a rotation by
// another process is in the store before this one is told to forget.
func (v *Vault) tenantWith(ctx context.Context, name runtime.Tenant, version int) (*tenant, error) {
	k, memory := v.keys.Load(), v.memory.Load()
	if k == nil {
		return nil, v.locked()
	}
	if t, ok := memory.tenants.Load(name); ok && t.(*tenant).newest().version >= version {
		return t.(*tenant), nil
	}
	if name == "" {
		return nil, &runtime.Error{Code: runtime.CodeInternal, Msg: "a tenant without a name has no key"}
	}
	t, err := v.openTenant(ctx, k, name)
	if v.overtaken(err) {
		if k, memory, err = v.renew(ctx); err == nil {
			t, err = v.openTenant(ctx, k, name)
		}
	}
	if err != nil {
		return nil, err
	}
	memory.tenants.Store(name, t)
	return t, nil
}

// overtaken reports whether an error may be that of a key which another process has rotated since
// this one took it up.
func (v *Vault) overtaken(err error) bool {
	return err != nil && v.o.Renew != nil && runtime.AsError(err).Reason == runtime.ReasonWrongMasterKey
}

// renew takes up the master key of a rotation. Many who need it ask once.
func (v *Vault) renew(ctx context.Context) (*keys, *memory, error) {
	_, err, _ := v.renewal.Do("", func() (any, error) {
		if stale, err := v.Stale(ctx); err != nil || !stale {
			return nil, err
		}
		return nil, v.o.Renew(context.WithoutCancel(ctx))
	})
	k, memory := v.keys.Load(), v.memory.Load()
	if err == nil && k == nil {
		err = v.locked()
	}
	return k, memory, err
}

// openTenant reads the keys of a tenant and opens them.
func (v *Vault) openTenant(ctx context.Context, k *keys, name runtime.Tenant) (*tenant, error) {
	rows, err := v.o.Store.TenantKeys(ctx, name)
	if err == nil && len(rows) == 0 {
		rows, err = v.newTenantKey(ctx, k, name)
	}
	if err != nil {
		return nil, unknowable(err)
	}
	t := &tenant{}
	for i, row := range rows {
		key, err := k.wrap.Open(row.Wrapped, keyFields(name, i+1))
		if err != nil || len(key) != keySize || row.Version != i+1 {
			return nil, v.unwrapped(ctx, k, fmt.Sprintf("the key of tenant %q", name))
		}
		one, err := newTenantKey(key, row.Version)
		if err != nil {
			return nil, err
		}
		t.versions = append(t.versions, one)
	}
	t.hash, err = derive(t.versions[0].key[:], "hash values")
	return t, err
}

// unwrapped tells a key that somebody changed from one that a new master key
// wraps, because another process has rotated it since this one looked.
func (v *Vault) unwrapped(ctx context.Context, k *keys, what string) error {
	if stale, err := v.stale(ctx, k); err != nil {
		return err
	} else if stale {
		return wrongKey()
	}
	return tampered(what, "put a copy of kimbap.db from before in its place")
}

// newTenantKey stores a random key and returns the one that is stored: of two
// processes that try, one is first.
func (v *Vault) newTenantKey(ctx context.Context, k *keys, name runtime.Tenant) ([]TenantKey, error) {
	if v.o.Exists != nil && !v.o.Exists(name) {
		return nil, &runtime.Error{
			Code: runtime.CodeForbidden, Reason: runtime.ReasonNotFound, Stage: runtime.StageCredential, Msg: "the tenant is not there any more",
		}
	}
	row, err := v.randomKey(k, name, 1)
	if err != nil {
		return nil, err
	}
	err = v.o.Store.AddTenantKey(ctx, row, k.check)
	if !errors.Is(err, ErrConflict) {
		return []TenantKey{row}, err
	}
	rows, err := v.o.Store.TenantKeys(ctx, name)
	if err == nil && len(rows) == 0 {
		err = wrongKey() // the conflict was over the master key
	}
	return rows, err
}

// randomKey makes and wraps a version of a tenant's key.
func (v *Vault) randomKey(k *keys, name runtime.Tenant, version int) (TenantKey, error) {
	var key [keySize]byte
	_, _ = rand.Read(key[:]) // never fails since Go 1.24
	defer clear(key[:])
	wrapped, err := k.wrap.Seal(key[:], keyFields(name, version))
	return TenantKey{Tenant: name, Version: version, Wrapped: wrapped, Created: micro(v.o.Clock())}, err
}

func newTenantKey(key []byte, version int) (*tenantKey, error) {
	secrets, err := newSealer(key, "seal secrets")
	return &tenantKey{version: version, key: [keySize]byte(key), secrets: secrets}, err
}

// sealer returns the sealer of a purpose.
func (t *tenantKey) sealer(purpose string) (*Sealer, error) {
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
	t, err := v.tenant(ctx, tenant)
	if err != nil {
		return nil, err
	}
	s, err := t.newest().sealer(purpose)
	if err != nil {
		return nil, err
	}
	return s.Seal(plain, fields(string(tenant), purpose, string(aad)))
}

// OpenFor opens what [Vault.SealFor] sealed for the same tenant and purpose
// with the same aad, under any version of the tenant's key. Other bytes are
// [ErrTampered]; an *runtime.Error means that the vault cannot be used now.
func (v *Vault) OpenFor(ctx context.Context, tenant runtime.Tenant, purpose string, sealed, aad []byte) ([]byte, error) {
	t, err := v.tenant(ctx, tenant)
	if err != nil {
		return nil, err
	}
	bound := fields(string(tenant), purpose, string(aad))
	if plain, err := t.openFor(purpose, sealed, bound, 0); !errors.Is(err, ErrTampered) {
		return plain, err
	}
	newer, err := v.tenantWith(ctx, tenant, t.newest().version+1) // of a rotation that we were not told of yet
	if err != nil {
		return nil, err
	}
	return newer.openFor(purpose, sealed, bound, len(t.versions))
}

// openFor tries the versions above one, the newest first.
func (t *tenant) openFor(purpose string, sealed, bound []byte, above int) ([]byte, error) {
	for i := len(t.versions) - 1; i >= above; i-- {
		s, err := t.versions[i].sealer(purpose)
		if err != nil {
			return nil, err
		}
		if plain, err := s.Open(sealed, bound); err == nil {
			return plain, nil
		}
	}
	return nil, ErrTampered
}

// HashKey returns the keyed hash of a tenant: HMAC-SHA256 in lower hex, under a
// key that is used for nothing else. Equal values of one tenant have equal
// hashes, also after a rotation; without the master key nobody can tell whose.
// The func is safe for concurrent use.
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
