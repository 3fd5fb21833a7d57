package vault

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// keys is what is derived from the master key. It is immutable.
type keys struct {
	check    []byte  // what the key check value must be
	wrap     *Sealer // over tenant keys
	files    *Sealer // over files of the home
	filesKey []byte  // of files; a rotation keeps it, so that they still open
}

func newKeys(master MasterKey) (*keys, error) {
	key := master.bytes()
	defer clear(key)
	check, err1 := derive(key, "key check value")
	wrap, err2 := newSealer(key, "wrap tenant keys")
	filesKey, err3 := derive(key, "seal files of the home")
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	files, err := sealerUnder(filesKey)
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	return &keys{check: append([]byte{format}, check...), wrap: wrap, files: files, filesKey: filesKey}, nil
}

// Locked reports whether the vault has no master key: nothing in it can be
// sealed, opened or hashed then, only listed and removed.
func (v *Vault) Locked() bool { return v.keys.Load() == nil }

// Lock takes the master key from this vault, as its owner has ordered, and drops what
// was opened, until [Vault.Unlock]. What other processes have open stays so;
// [Vault.SetLock] is the order to all.
func (v *Vault) Lock() {
	v.ordered.Store(true)
	v.Shut()
}

// Shut is [Vault.Lock] where nobody has ordered it: the key was replaced, and the new
// one is not there.
func (v *Vault) Shut() {
	v.keys.Store(nil)
	v.Forget()
	v.fetched.clear()
}

// Master seals files of the home that the master key itself protects, such as
// the key of the local CA. It refuses while the vault is locked.
func (v *Vault) Master() Master { return Master{v} }

// Master is a sealer of files under the master key.
type Master struct{ v *Vault }

// Seal returns the sealed form of plain. The same aad opens it.
func (m Master) Seal(plain, aad []byte) ([]byte, error) {
	k := m.v.keys.Load()
	if k == nil {
		return nil, m.v.locked()
	}
	return k.files.Seal(plain, aad)
}

// Open returns what was sealed under this master key or one before it, or
// [ErrTampered]. When another process has rotated the master key, it is taken up.
func (m Master) Open(sealed, aad []byte) ([]byte, error) {
	k := m.v.keys.Load()
	if k == nil {
		return nil, m.v.locked()
	}
	plain, err := k.files.Open(sealed, aad)
	if err == nil {
		return plain, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if m.v.o.Renew != nil {
		if k, _, err = m.v.renew(ctx); err != nil {
			return nil, err
		}
	}
	if plain, err := k.files.Open(sealed, aad); err == nil {
		return plain, nil
	}
	return m.older(ctx, k, sealed, aad)
}

// older opens what was sealed under a master key before this one.
func (m Master) older(ctx context.Context, k *keys, sealed, aad []byte) ([]byte, error) {
	rows, err := m.v.o.Store.TenantKeys(ctx, filesTenant)
	if err != nil {
		return nil, unknowable(err)
	}
	for _, row := range rows {
		key, err := k.wrap.Open(row.Wrapped, keyFields(row.Tenant, row.Version))
		if err != nil {
			continue // its files do not open, as if it were not there
		}
		s, err := sealerUnder(key)
		if err != nil {
			return nil, err
		}
		if plain, err := s.Open(sealed, aad); err == nil {
			return plain, nil
		}
	}
	return nil, ErrTampered
}
