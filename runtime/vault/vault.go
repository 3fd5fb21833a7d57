package vault

import (
	"context"
	"crypto/subtle"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/kimbap-run/kimbap/runtime"
)

// Options are what a [Vault] needs. Store and Clock are required.
type Options struct {
	Store Store
	Key   MasterKey // none: the vault is locked until [Vault.Unlock]
	Clock func() time.Time
	Fetch Fetcher // of values that other stores keep; nil: they are refused
	// Renew calls Unlock with the keys that are kept now. It is called when another
	// process has rotated the master key; nil: what needs a key fails then.
	Renew func(ctx context.Context) error
	// Exists reports whether there is a tenant. One that is not there gets no key, so
	// that nothing is sealed for it any more; nil: all are.
	Exists func(tenant runtime.Tenant) bool
	// Words yields the words of a value that are told as a secret by themselves,
	// for fingerprints; nil: none are made.
	Words func(value string) iter.Seq[string]
	// Parts are the secrets that a value holds where it is none itself, as an OAuth grant
	// is; none for any other. nil: each value is one secret.
	Parts func(value runtime.Secret) []runtime.Secret
}

// Vault opens and keeps secrets. It is safe for concurrent use; several
// processes may work on one store.
type Vault struct {
	o       Options
	keys    atomic.Pointer[keys]   // nil: locked
	ordered atomic.Bool            // locked by an operator, not for want of a key
	memory  atomic.Pointer[memory] // replaced whole by Forget
	used    sync.Map               // place → *atomic.Int64, microseconds of the last use not yet written
	fetched fetched
	renewal singleflight.Group
	live    live
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
	known   sync.Map // runtime.Tenant → func(string) bool
}

var _ runtime.Vault = (*Vault)(nil)

// New refuses Options with something missing. It does no IO; call [Vault.Open].
func New(o Options) (*Vault, error) {
	switch {
	case o.Store == nil:
		return nil, errors.New("vault: Options.Store is missing")
	case o.Clock == nil:
		return nil, errors.New("vault: Options.Clock is missing")
	}
	if o.Fetch == nil {
		o.Fetch = noFetcher{}
	}
	v := &Vault{o: o}
	v.memory.Store(&memory{})
	if !o.Key.key.Empty() {
		k, err := newKeys(o.Key)
		if err != nil {
			return nil, err
		}
		v.keys.Store(k)
	}
	v.o.Key = MasterKey{} // not needed any more
	return v, nil
}

// Open checks the master key against the vault before anything else is done
// with it, and gives a new vault its check value and the default tenant its
// key. A wrong key is CodeVaultLocked with ReasonWrongMasterKey, and nothing is
// written. A vault without a key stays locked, which is no error.
func (v *Vault) Open(ctx context.Context) error {
	k := v.keys.Load()
	if k == nil {
		return nil
	}
	err := v.prove(ctx, k)
	if v.overtaken(err) { // since Unlock has proved it
		_, _, err = v.renew(ctx)
	}
	if err == nil {
		_, err = v.tenant(ctx, runtime.DefaultTenant)
	}
	return err
}

// Unlock gives the vault the one of these keys that proves to be the right one.
// Errors are those of [Vault.Open]; the vault stays as it was then.
func (v *Vault) Unlock(ctx context.Context, candidates ...MasterKey) error {
	err := noKey()
	for _, key := range candidates {
		if key.key.Empty() {
			continue
		}
		k, kerr := newKeys(key)
		if kerr != nil {
			return kerr
		}
		if err = v.prove(ctx, k); err == nil {
			v.keys.Store(k)
			v.ordered.Store(false)
			v.Forget()
			return nil
		}
		if runtime.AsError(err).Reason != runtime.ReasonWrongMasterKey {
			return err
		}
	}
	return err
}

// Uses reports whether this is the master key that the vault has.
func (v *Vault) Uses(key MasterKey) bool {
	k := v.keys.Load()
	if k == nil || key.key.Empty() {
		return false
	}
	other, err := newKeys(key)
	return err == nil && subtle.ConstantTimeCompare(k.check, other.check) == 1
}

// Stale reports whether another process has rotated the master key since this
// vault took its own: [Vault.Unlock] it with the new one.
func (v *Vault) Stale(ctx context.Context) (bool, error) {
	k := v.keys.Load()
	if k == nil {
		return false, nil
	}
	return v.stale(ctx, k)
}

func (v *Vault) stale(ctx context.Context, k *keys) (bool, error) {
	stored, err := v.o.Store.CheckValue(ctx)
	if err != nil {
		return false, unknowable(err)
	}
	return stored != nil && subtle.ConstantTimeCompare(stored, k.check) != 1, nil
}

// prove compares what a key makes with the check value of the vault.
func (v *Vault) prove(ctx context.Context, k *keys) error {
	stored, err := v.o.Store.CheckValue(ctx)
	if err != nil {
		return unknowable(err)
	}
	if stored == nil {
		if stored, err = v.firstCheck(ctx, k); err != nil {
			return err
		}
	}
	if subtle.ConstantTimeCompare(stored, k.check) != 1 {
		return wrongKey()
	}
	return nil
}

// firstCheck stores the check value of a new vault and returns what is stored.
func (v *Vault) firstCheck(ctx context.Context, k *keys) ([]byte, error) {
	// A tenant key without a check value: somebody removed it. The key must
	// still prove itself, or a wrong one would be taken for the right one.
	rows, err := v.o.Store.TenantKeys(ctx, runtime.DefaultTenant)
	if err != nil {
		return nil, unknowable(err)
	}
	for _, row := range rows {
		if _, err := k.wrap.Open(row.Wrapped, keyFields(row.Tenant, row.Version)); err != nil {
			return nil, wrongKey()
		}
	}
	switch err := v.o.Store.SetCheckValue(ctx, k.check); {
	case err == nil:
		return k.check, nil
	case !errors.Is(err, ErrConflict):
		return nil, unknowable(err)
	}
	stored, err := v.o.Store.CheckValue(ctx) // another process was faster
	return stored, unknowable(err)
}

// Forget drops everything that was read from the store and opened. The next
// use reads again.
func (v *Vault) Forget() { v.memory.Store(&memory{}) }

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

// locked is the error of a vault that has no key.
func (v *Vault) locked() error {
	if v.ordered.Load() {
		return &runtime.Error{
			Code: runtime.CodeVaultLocked, Reason: runtime.ReasonLocked, Stage: runtime.StageCredential,
			Msg:  "the vault is locked by its owner, so no stored credential can be used",
			Hint: "the owner of this kimbap opens it with: kimbap unlock",
		}
	}
	return noKey()
}

func noKey() error {
	return &runtime.Error{
		Code: runtime.CodeVaultLocked, Reason: runtime.ReasonNoMasterKey, Stage: runtime.StageCredential,
		Msg:  "the vault is locked: its master key is not there, so no stored credential can be used",
		Hint: "the owner of this kimbap puts the master key back (kimbap status says where), then try again",
	}
}

func wrongKey() error {
	return &runtime.Error{
		Code: runtime.CodeVaultLocked, Reason: runtime.ReasonWrongMasterKey, Stage: runtime.StageCredential,
		Msg:  "this master key is not the one the vault was made with; nothing was changed",
		Hint: "put back the master key that belongs to this home",
	}
}

// tampered is the error of a stored row that does not open; fix is a command that helps.
func tampered(what, fix string) error {
	return &runtime.Error{
		Code: runtime.CodeVaultLocked, Reason: runtime.ReasonTampered, Stage: runtime.StageCredential,
		Msg:  what + " was changed outside kimbap, so it is not used",
		Hint: fix + "; and find out who can write the database", Err: ErrTampered,
	}
}
