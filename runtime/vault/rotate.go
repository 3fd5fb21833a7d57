package vault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// RotateTenantKey gives a tenant a new key and seals all its secrets anew under
// it, together. It returns the version of the key and how many secrets there
// are. Older versions stay, wrapped, for what was sealed under them elsewhere: a
// backup, a held request.
func (v *Vault) RotateTenantKey(ctx context.Context, name runtime.Tenant) (version, secrets int, err error) {
	defer v.Forget()
	for range attempts {
		r, err := v.tenantRotation(ctx, name)
		if v.overtaken(err) {
			if _, _, err = v.renew(ctx); err == nil {
				continue
			}
		}
		if err != nil {
			return 0, 0, err
		}
		if err = v.o.Store.RotateTenantKey(ctx, r); err == nil {
			return r.Key.Version, len(r.Rows), nil
		}
		if !errors.Is(err, ErrConflict) {
			return 0, 0, unknowable(err)
		}
	}
	return 0, 0, contended(fmt.Sprintf("secrets of tenant %q", name))
}

// tenantRotation makes the next key of a tenant and everything under it, from
// what is stored now.
func (v *Vault) tenantRotation(ctx context.Context, name runtime.Tenant) (TenantRotation, error) {
	k := v.keys.Load()
	if k == nil {
		return TenantRotation{}, v.locked()
	}
	r := TenantRotation{Check: k.check}
	var err error
	if r.Rows, err = v.o.Store.Secrets(ctx, name); err != nil { // before the keys that they are under
		return r, unknowable(err)
	}
	old, err := v.openTenant(ctx, k, name)
	if err != nil {
		return r, err
	}
	if r.Key, err = v.randomKey(k, name, len(old.versions)+1); err != nil {
		return r, err
	}
	key, err := k.wrap.Open(r.Key.Wrapped, keyFields(name, r.Key.Version))
	if err != nil {
		return r, err
	}
	next, err := newTenantKey(key, r.Key.Version)
	clear(key)
	if err != nil {
		return r, err
	}
	for i := range r.Rows {
		if err := next.adopt(old, &r.Rows[i]); err != nil {
			return r, err
		}
	}
	return r, nil
}

// adopt seals a stored secret under this key, everything else as it is.
func (k *tenantKey) adopt(old *tenant, row *Sealed) error {
	plain, err := old.open(row)
	if err != nil {
		return err
	}
	defer clear(plain)
	row.KeyVersion = k.version
	row.Ciphertext, err = k.secrets.Seal(plain, secretFields(row))
	return err
}

// RotateMaster replaces the master key by the next one of its wrapper: all keys
// of tenants are wrapped anew, together with the key check value. A process that
// is killed on the way leaves one key in force, the old one or the new one, which
// the check value tells, and [Vault.Unlock] finds among [KeyWrapper.Keys]. It
// returns how many keys were wrapped. The caller keeps other rotations away.
func (v *Vault) RotateMaster(ctx context.Context, wrapper KeyWrapper) (int, error) {
	k := v.keys.Load()
	if k == nil {
		return 0, v.locked()
	}
	if err := v.prove(ctx, k); err != nil {
		return 0, err
	}
	next, err := wrapper.Next(ctx)
	if err != nil {
		return 0, err
	}
	n, err := newKeys(next)
	if err != nil {
		return 0, err
	}
	if v.Uses(next) {
		return 0, invalid("give another one as KIMBAP_MASTER_KEY_NEXT, 64 hex digits as openssl rand -hex 32 prints", "the key that should follow is the master key that is in force, so nothing was changed")
	}
	for range attempts {
		r, err := v.masterRotation(ctx, k, n)
		if err != nil {
			return 0, err
		}
		if err = v.o.Store.RotateMaster(ctx, r); err == nil {
			v.keys.Store(n)
			v.Forget()
			return len(r.Keys), wrapper.Settle(ctx, next)
		}
		if !errors.Is(err, ErrConflict) {
			return 0, unknowable(err)
		}
	}
	return 0, contended("keys")
}

// masterRotation wraps everything that one master key wraps under another.
func (v *Vault) masterRotation(ctx context.Context, from, to *keys) (MasterRotation, error) {
	r := MasterRotation{From: from.check, To: to.check}
	rows, err := v.o.Store.AllKeys(ctx)
	if err != nil {
		return r, unknowable(err)
	}
	files := 0
	for _, row := range rows {
		key, err := from.wrap.Open(row.Wrapped, keyFields(row.Tenant, row.Version))
		if err != nil {
			return r, v.unwrapped(ctx, from, fmt.Sprintf("version %d of the key of tenant %q", row.Version, row.Tenant))
		}
		row.Wrapped, err = to.wrap.Seal(key, keyFields(row.Tenant, row.Version))
		clear(key)
		if err != nil {
			return r, err
		}
		if row.Tenant == filesTenant {
			files = row.Version
		}
		r.Keys = append(r.Keys, row)
	}
	r.Files = TenantKey{Tenant: filesTenant, Version: files + 1, Created: micro(v.o.Clock())}
	r.Files.Wrapped, err = to.wrap.Seal(from.filesKey, keyFields(filesTenant, r.Files.Version))
	return r, err
}

// SetLock locks the vault for every process over its store, also for those to
// come: for that long, or with 0 until [Vault.LiftLock]. Who works on the store takes
// it up when the change counter moves, and its end by looking again.
func (v *Vault) SetLock(ctx context.Context, by string, length time.Duration) error {
	l := Lock{Since: micro(v.o.Clock()), By: by}
	if length > 0 {
		l.Until = l.Since.Add(length)
	}
	return v.setLock(ctx, l)
}

// LiftLock ends the lock of [Vault.SetLock].
func (v *Vault) LiftLock(ctx context.Context) error { return v.setLock(ctx, Lock{}) }

func (v *Vault) setLock(ctx context.Context, l Lock) error {
	err := v.o.Store.SetLock(ctx, l)
	if errors.Is(err, ErrConflict) {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Stage: runtime.StageCredential,
			Msg: "this vault was never opened, so there is nothing to lock", Hint: "kimbap link SERVICE",
		}
	}
	return unknowable(err)
}

// Ordered returns the lock that is in force for all processes, false without one.
func (v *Vault) Ordered(ctx context.Context) (Lock, bool, error) {
	l, err := v.o.Store.Lock(ctx)
	ended := !l.Until.IsZero() && !v.o.Clock().Before(l.Until)
	return l, !l.Since.IsZero() && !ended, unknowable(err)
}

// contended is the error of a change that others were always ahead of.
func contended(what string) error {
	return &runtime.Error{
		Code: runtime.CodeStorageBusy, Stage: runtime.StageCredential, RetryAfter: time.Second,
		Msg: "others change the " + what + " all the time", Hint: "try again", Err: ErrConflict,
	}
}
