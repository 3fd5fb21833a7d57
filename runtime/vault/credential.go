package vault

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// opened is one stored secret as it is kept in memory; the zero credential says
// that nothing is stored there.
type opened struct {
	credential runtime.Credential
	expires    time.Time
	used       *atomic.Int64
}

// Credential implements [runtime.Vault]. An expired secret is as good as none.
// A user name from the vault narrows where the pair may go to what both allow.
func (v *Vault) Credential(ctx context.Context, tenant runtime.Tenant, auth *runtime.Auth) (runtime.Credential, error) {
	if auth == nil {
		return runtime.Credential{}, &runtime.Error{Code: runtime.CodeInternal, Msg: "an action without an auth section has no credential"}
	}
	if auth.Type == runtime.AuthNone || auth.Type == "" || auth.Ref == "" {
		return runtime.Credential{}, nil
	}
	c, err := v.lookUp(ctx, place{tenant, auth.Ref})
	if err != nil || !c.Found() || auth.Type != runtime.AuthBasic || auth.UsernameRef == "" {
		return c, err
	}
	user, err := v.lookUp(ctx, place{tenant, auth.UsernameRef})
	if err != nil {
		return runtime.Credential{}, err
	}
	if !user.Found() {
		return runtime.Credential{}, &runtime.Error{
			Code: runtime.CodeNoCredential, Stage: runtime.StageCredential,
			Msg:  fmt.Sprintf("the credential %q is stored, but the user name %q that goes with it is not", auth.Ref, auth.UsernameRef),
			Hint: "kimbap vault set " + auth.UsernameRef,
		}
	}
	c.Username = user.Value
	c.Authorities = slices.DeleteFunc(slices.Clone(c.Authorities), func(a string) bool { return !user.Allows(a) })
	return c, nil
}

// lookUp returns the credential of one place, from memory when it can.
func (v *Vault) lookUp(ctx context.Context, at place) (runtime.Credential, error) {
	if v.Locked() { // before the store is asked: "none is stored" would let the caller's own key pass
		return runtime.Credential{}, locked()
	}
	memory := v.memory.Load()
	kept, ok := memory.secrets.Load(at)
	if !ok {
		o, err := v.read(ctx, at)
		if err != nil {
			return runtime.Credential{}, err
		}
		kept, _ = memory.secrets.LoadOrStore(at, o)
	}
	o := kept.(*opened)
	if !o.credential.Found() {
		return runtime.Credential{}, nil
	}
	now := v.o.Clock()
	if !o.expires.IsZero() && !now.Before(o.expires) {
		return runtime.Credential{}, nil
	}
	o.used.Store(now.UnixMicro())
	return o.credential, nil
}

// read takes a secret from the store and opens it.
func (v *Vault) read(ctx context.Context, at place) (*opened, error) {
	row, found, err := v.o.Store.Secret(ctx, at.tenant, at.name)
	if err != nil {
		return nil, unknowable(err)
	}
	if !found {
		return &opened{}, nil
	}
	t, err := v.tenant(ctx, at.tenant)
	if err != nil {
		return nil, err
	}
	row.Tenant, row.Name = at.tenant, at.name // what was asked for, whatever the row says
	plain, err := t.secrets.Open(row.Ciphertext, secretFields(&row))
	if err != nil || len(plain) == 0 || len(row.Authorities) == 0 {
		return nil, tampered(fmt.Sprintf("the stored credential %q", at.name))
	}
	value := runtime.NewSecret(string(plain))
	clear(plain)
	v.live.add(value)
	used, _ := v.used.LoadOrStore(at, new(atomic.Int64))
	return &opened{
		credential: runtime.Credential{Name: at.name, Version: row.Version, Value: value, Authorities: row.Authorities},
		expires:    row.Expires, used: used.(*atomic.Int64),
	}, nil
}

// Flush writes the last uses since the previous Flush, one batch per tenant.
// What could not be written is kept for the next. Call it every few seconds
// and before the end.
func (v *Vault) Flush(ctx context.Context) error {
	batches := map[runtime.Tenant]map[string]time.Time{}
	for key, last := range v.used.Range {
		at := key.(place)
		if micros := last.(*atomic.Int64).Swap(0); micros > 0 {
			if batches[at.tenant] == nil {
				batches[at.tenant] = map[string]time.Time{}
			}
			batches[at.tenant][at.name] = time.UnixMicro(micros).UTC()
		}
	}
	var first error
	for tenant, batch := range batches {
		if err := v.o.Store.Touch(ctx, tenant, batch); err != nil {
			if first == nil {
				first = unknowable(err)
			}
			v.again(tenant, batch)
		}
	}
	return first
}

// again puts unwritten uses back, unless a newer one came meanwhile.
func (v *Vault) again(tenant runtime.Tenant, batch map[string]time.Time) {
	for name, at := range batch {
		if last, ok := v.used.Load(place{tenant, name}); ok {
			last.(*atomic.Int64).CompareAndSwap(0, at.UnixMicro())
		}
	}
}
