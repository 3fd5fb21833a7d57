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
// for concurrent use, also by several processes. What is said to happen
// together happens whole or not at all, also when the process is killed.
type Store interface {
	// CheckValue returns the key check value, nil when there is none yet.
	CheckValue(ctx context.Context) ([]byte, error)
	// SetCheckValue stores the first key check value; ErrConflict when there is one.
	SetCheckValue(ctx context.Context, value []byte) error
	// TenantKeys returns the wrapped keys of a tenant, oldest first.
	TenantKeys(ctx context.Context, tenant runtime.Tenant) ([]TenantKey, error)
	// AllKeys returns the wrapped keys of all tenants, by tenant and version.
	AllKeys(ctx context.Context) ([]TenantKey, error)
	// AddTenantKey stores the first key of a tenant; ErrConflict when there is
	// one, or when check is not the key check value any more.
	AddTenantKey(ctx context.Context, key TenantKey, check []byte) error
	// PutSecrets stores versions together: 1 for a new name, else the stored one
	// plus 1, each under the newest key of its tenant; ErrConflict otherwise.
	PutSecrets(ctx context.Context, rows ...Sealed) error
	// Secret returns the current version; false when there is none.
	Secret(ctx context.Context, tenant runtime.Tenant, name string) (Sealed, bool, error)
	// Secrets lists a tenant's secrets by name.
	Secrets(ctx context.Context, tenant runtime.Tenant) ([]Sealed, error)
	// Strays returns how many secrets are stored for a tenant that has no key of its own.
	Strays(ctx context.Context) (int, error)
	// RemoveSecret reports whether there was one.
	RemoveSecret(ctx context.Context, tenant runtime.Tenant, name string) (bool, error)
	// Touch notes last uses, a batch at a time. Unknown names are passed over, and so is a use
	// from before a version that has none yet: it was of another value.
	Touch(ctx context.Context, tenant runtime.Tenant, used map[string]time.Time) error
	// RotateTenantKey stores the next key of a tenant together with all its
	// secrets sealed anew; ErrConflict when r was not made from what is stored.
	RotateTenantKey(ctx context.Context, r TenantRotation) error
	// RotateMaster replaces the key check value together with all wrapped keys;
	// ErrConflict when r was not made from what is stored.
	RotateMaster(ctx context.Context, r MasterRotation) error
	// Lock returns who locked the vault and when; the zero Lock: nobody.
	Lock(ctx context.Context) (Lock, error)
	// SetLock locks the vault for all processes, also for those to come; the
	// zero Lock opens it again. ErrConflict for a vault without a check value.
	SetLock(ctx context.Context, l Lock) error
}

// Sealed is a secret as it is stored.
type Sealed struct {
	Tenant      runtime.Tenant
	Name        string
	Version     int
	KeyVersion  int      // of the tenant's key that it is sealed under
	Authorities []string // bound into the ciphertext as additional data
	Reference   string   // where the value is fetched, as JSON; "": it is sealed here; bound too
	Ciphertext  []byte   // format byte, nonce, then AES-256-GCM output
	Created     time.Time
	LastUsed    time.Time // zero: never
	Expires     time.Time // zero: never; bound into the ciphertext too

	Fingerprints []string // keyed hashes of the value and its words, hex
}

// TenantKey is one version of a tenant's key, wrapped by the master key. The
// tenant without a name has the keys of files that older master keys sealed.
type TenantKey struct {
	Tenant  runtime.Tenant
	Version int // from 1
	Wrapped []byte
	Created time.Time
}

// TenantRotation is the next key of a tenant and everything under it.
type TenantRotation struct {
	Key   TenantKey // one version above the newest
	Check []byte    // the key check value it was wrapped under
	Rows  []Sealed  // all secrets of the tenant, each in its version, under Key
}

// MasterRotation is everything that a master key wraps, under the next one.
type MasterRotation struct {
	From, To []byte      // key check values
	Keys     []TenantKey // all that are stored
	Files    TenantKey   // one more: what the old master key sealed files with
}

// Lock is an operator's order that nothing be opened.
type Lock struct {
	Since time.Time
	By    string
	Until time.Time // zero: until it is lifted
}
