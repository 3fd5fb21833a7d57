package vault

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Options are what a [Vault] needs. All of them are required.
type Options struct {
	Store Store
	Key   MasterKey
	Clock func() time.Time
}

// Vault opens and keeps secrets. It is safe for concurrent use; several
// processes may work on one store.
type Vault struct {
	o     Options
	check []byte  // what the key check value must be
	wrap  *Sealer // over tenant keys
	files *Sealer // over files of the home

	memory atomic.Pointer[memory] // replaced whole by Forget
	used   sync.Map               // place → *atomic.Int64, microseconds of the last use not yet written
	live   live
}

// place is where a secret stands.
type place struct {
	tenant runtime.Tenant
	name   string
}

// memory is what was read from the store and opened. Whoever reads the store
// writes into the memory that was there before the read: a Forget meanwhile
// throws it away with the rest.
type memory struct {
	secrets sync.Map // place → *opened
	tenants sync.Map // runtime.Tenant → *tenant
}

var _ runtime.Vault = (*Vault)(nil)

// New refuses Options with something missing. It does no IO; call [Vault.Open].
func New(o Options) (*Vault, error) {
	switch {
	case o.Store == nil:
		return nil, errors.New("vault: Options.Store is missing")
	case o.Key.key.Empty():
		return nil, errors.New("vault: Options.Key is missing")
	case o.Clock == nil:
		return nil, errors.New("vault: Options.Clock is missing")
	}
	key := o.Key.bytes()
	defer clear(key)
	check, err1 := derive(key, "key check value")
	wrap, err2 := newSealer(key, "wrap tenant keys")
	files, err3 := newSealer(key, "seal files of the home")
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	o.Key = MasterKey{} // not needed any more
	v := &Vault{o: o, check: append([]byte{format}, check...), wrap: wrap, files: files}
	v.memory.Store(&memory{})
	return v, nil
}

// Open checks the master key against the vault before anything else is done
// with it, and gives a new vault its check value and the default tenant its
// key. A wrong key is CodeVaultLocked with ReasonWrongMasterKey, and nothing is
// written.
func (v *Vault) Open(ctx context.Context) error {
	stored, err := v.o.Store.CheckValue(ctx)
	if err != nil {
		return unknowable(err)
	}
	if stored == nil {
		if stored, err = v.firstCheck(ctx); err != nil {
			return err
		}
	}
	if subtle.ConstantTimeCompare(stored, v.check) != 1 {
		return wrongKey()
	}
	_, err = v.tenant(ctx, runtime.DefaultTenant)
	return err
}

// firstCheck stores the check value of a new vault and returns what is stored.
func (v *Vault) firstCheck(ctx context.Context) ([]byte, error) {
	// A tenant key without a check value: somebody removed it. The key must
	// still prove itself, or a wrong one would be taken for the right one.
	wrapped, err := v.o.Store.TenantKey(ctx, runtime.DefaultTenant)
	if err != nil {
		return nil, unknowable(err)
	}
	if wrapped != nil {
		if _, err := v.wrap.Open(wrapped, fields("tenant key", string(runtime.DefaultTenant))); err != nil {
			return nil, wrongKey()
		}
	}
	switch err := v.o.Store.SetCheckValue(ctx, v.check); {
	case err == nil:
		return v.check, nil
	case !errors.Is(err, ErrConflict):
		return nil, unknowable(err)
	}
	stored, err := v.o.Store.CheckValue(ctx) // another process was faster
	return stored, unknowable(err)
}

// Forget drops everything that was read from the store and opened. The next
// use reads again.
func (v *Vault) Forget() { v.memory.Store(&memory{}) }

// Master seals files of the home that the master key itself protects, such as
// the key of the local CA.
func (v *Vault) Master() *Sealer { return v.files }

// unknowable is the error of a vault that cannot say what is stored.
func unknowable(err error) error {
	if err == nil {
		return nil
	}
	if e := (*runtime.Error)(nil); errors.As(err, &e) || errors.Is(err, context.Canceled) {
		return err
	}
	return &runtime.Error{
		Code: runtime.CodeVaultLocked, Reason: runtime.ReasonStorageUnavailable, Stage: runtime.StageCredential,
		Msg: "the vault's store did not answer, so no credential can be used", Hint: "kimbap doctor", Err: err,
	}
}

func wrongKey() error {
	return &runtime.Error{
		Code: runtime.CodeVaultLocked, Reason: runtime.ReasonWrongMasterKey, Stage: runtime.StageCredential,
		Msg:  "this master key is not the one the vault was made with; nothing was changed",
		Hint: "put back the master key that belongs to this home",
	}
}

// tampered is the error of a stored row that does not open.
func tampered(what string) error {
	return &runtime.Error{
		Code: runtime.CodeVaultLocked, Reason: runtime.ReasonTampered, Stage: runtime.StageCredential,
		Msg:  what + " was changed outside kimbap, so it is not used",
		Hint: "store the credential again with: kimbap vault set NAME; and find out who can write the database", Err: ErrTampered,
	}
}
