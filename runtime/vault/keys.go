package vault

import (
	"errors"
	"fmt"
)

// keys is what is derived from the master key. It is immutable.
type keys struct {
	check []byte  // what the key check value must be
	wrap  *Sealer // over tenant keys
	files *Sealer // over files of the home
}

func newKeys(master MasterKey) (*keys, error) {
	key := master.bytes()
	defer clear(key)
	check, err1 := derive(key, "key check value")
	wrap, err2 := newSealer(key, "wrap tenant keys")
	files, err3 := newSealer(key, "seal files of the home")
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	return &keys{check: append([]byte{format}, check...), wrap: wrap, files: files}, nil
}

// Locked reports whether the vault has no master key: nothing in it can be
// sealed, opened or hashed then, only listed and removed.
func (v *Vault) Locked() bool { return v.keys.Load() == nil }

// Master seals files of the home that the master key itself protects, such as
// the key of the local CA. It refuses while the vault is locked.
func (v *Vault) Master() Master { return Master{v} }

// Master is a sealer of files under the master key.
type Master struct{ v *Vault }

// Seal returns the sealed form of plain. The same aad opens it.
func (m Master) Seal(plain, aad []byte) ([]byte, error) {
	k := m.v.keys.Load()
	if k == nil {
		return nil, locked()
	}
	return k.files.Seal(plain, aad)
}

// Open returns what was sealed, or [ErrTampered].
func (m Master) Open(sealed, aad []byte) ([]byte, error) {
	k := m.v.keys.Load()
	if k == nil {
		return nil, locked()
	}
	return k.files.Open(sealed, aad)
}
