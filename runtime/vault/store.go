package vault

import (
	"context"
	"errors"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// ErrConflict is returned by a [Store] when another process was faster: the
// caller reads again and decides again.
var ErrConflict = errors.New("the stored value changed meanwhile")

// Store keeps what the vault has sealed. It sees ciphertext only. It is safe
// for concurrent use, also by several processes.
type Store interface {
	// CheckValue returns the key check value, nil when there is none yet.
	CheckValue(ctx context.Context) ([]byte, error)
	// SetCheckValue stores the first key check value; ErrConflict when there is one.
	SetCheckValue(ctx context.Context, value []byte) error
	// TenantKey returns the wrapped key of a tenant, nil when it has none.
	TenantKey(ctx context.Context, tenant runtime.Tenant) ([]byte, error)
	// AddTenantKey stores the first wrapped key of a tenant; ErrConflict when there is one.
	AddTenantKey(ctx context.Context, tenant runtime.Tenant, wrapped []byte) error
	// PutSecret stores a version: 1 for a new name, else the stored one plus 1;
	// ErrConflict otherwise.
	PutSecret(ctx context.Context, s Sealed) error
	// Secret returns the current version; false when there is none.
	Secret(ctx context.Context, tenant runtime.Tenant, name string) (Sealed, bool, error)
	// Secrets lists a tenant's secrets by name.
	Secrets(ctx context.Context, tenant runtime.Tenant) ([]Sealed, error)
	// RemoveSecret reports whether there was one.
	RemoveSecret(ctx context.Context, tenant runtime.Tenant, name string) (bool, error)
	// Touch notes last uses, a batch at a time. Unknown names are passed over.
	Touch(ctx context.Context, tenant runtime.Tenant, used map[string]time.Time) error
}

// Sealed is a secret as it is stored.
type Sealed struct {
	Tenant      runtime.Tenant
	Name        string
	Version     int
	Authorities []string // bound into the ciphertext as additional data
	Ciphertext  []byte   // format byte, nonce, then AES-256-GCM output
	Created     time.Time
	LastUsed    time.Time // zero: never
	Expires     time.Time // zero: never; bound into the ciphertext too

	Fingerprints []string // keyed hashes of the value and its words, hex
}
