package tables

import (
	"bytes"
	"context"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

const (
	newestKey  = "SELECT COALESCE(MAX(version), 0) FROM tenant_keys WHERE tenant = ?"
	keyColumns = "tenant, version, wrapped, created"
)

func scanKey(row Row) (k vault.TenantKey, err error) {
	return k, row.Scan(&k.Tenant, &k.Version, &k.Wrapped, moment{&k.Created})
}

// TenantKeys implements [vault.Store].
func (s *Store) TenantKeys(ctx context.Context, tenant runtime.Tenant) ([]vault.TenantKey, error) {
	return collect(ctx, s, "read a tenant key", "SELECT "+keyColumns+" FROM tenant_keys WHERE tenant = ? ORDER BY version",
		[]any{string(tenant)}, scanKey)
}

// AllKeys implements [vault.Store].
func (s *Store) AllKeys(ctx context.Context) ([]vault.TenantKey, error) {
	return collect(ctx, s, "read the tenant keys", "SELECT "+keyColumns+" FROM tenant_keys ORDER BY tenant, version", nil, scanKey)
}

// AddTenantKey implements [vault.Store].
func (s *Store) AddTenantKey(ctx context.Context, key vault.TenantKey, check []byte) error {
	return s.write(ctx, "store a tenant key", func(t Tx) error {
		if err := t.alone(); err != nil {
			return err
		}
		if err := t.under(check); err != nil {
			return err
		}
		n, err := t.Exec("INSERT INTO tenant_keys ("+keyColumns+") VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
			string(key.Tenant), key.Version, key.Wrapped, micros(key.Created))
		if err == nil && n == 0 {
			return vault.ErrConflict
		}
		return err
	})
}

// alone lets nobody else change keys or secrets: what is read of them is written anew.
func (t Tx) alone() error { return t.Alone("vault", "tenant_keys", "secrets") }

// under refuses when the key check value is another.
func (t Tx) under(check []byte) error {
	var stored []byte
	if _, err := t.get("SELECT check_value FROM vault", nil, &stored); err != nil {
		return err
	}
	if !bytes.Equal(stored, check) {
		return vault.ErrConflict
	}
	return nil
}

// RotateTenantKey implements [vault.Store].
func (s *Store) RotateTenantKey(ctx context.Context, r vault.TenantRotation) error {
	return s.write(ctx, "rotate a tenant key", func(t Tx) error {
		if err := t.alone(); err != nil {
			return err
		}
		if err := t.under(r.Check); err != nil {
			return err
		}
		newest, stored := 0, 0
		if _, err := t.get(newestKey, []any{string(r.Key.Tenant)}, &newest); err != nil {
			return err
		}
		if _, err := t.get("SELECT COUNT(*) FROM secrets WHERE tenant = ?", []any{string(r.Key.Tenant)}, &stored); err != nil {
			return err
		}
		if r.Key.Version != newest+1 || stored != len(r.Rows) {
			return vault.ErrConflict
		}
		if err := t.addKey(r.Key); err != nil {
			return err
		}
		for _, s := range r.Rows {
			n, err := t.Exec("UPDATE secrets SET key_version = ?, ciphertext = ? WHERE tenant = ? AND name = ? AND version = ? AND key_version = ?",
				r.Key.Version, s.Ciphertext, string(r.Key.Tenant), s.Name, s.Version, newest)
			if err != nil {
				return err
			}
			if n != 1 {
				return vault.ErrConflict
			}
		}
		return nil
	})
}

func (t Tx) addKey(k vault.TenantKey) error {
	_, err := t.Exec("INSERT INTO tenant_keys ("+keyColumns+") VALUES (?, ?, ?, ?)", string(k.Tenant), k.Version, k.Wrapped, micros(k.Created))
	return err
}

// RotateMaster implements [vault.Store].
func (s *Store) RotateMaster(ctx context.Context, r vault.MasterRotation) error {
	return s.write(ctx, "rotate the master key", func(t Tx) error {
		if err := t.alone(); err != nil {
			return err
		}
		if err := t.under(r.From); err != nil {
			return err
		}
		stored := 0
		if _, err := t.get("SELECT COUNT(*) FROM tenant_keys", nil, &stored); err != nil {
			return err
		}
		if stored != len(r.Keys) {
			return vault.ErrConflict
		}
		for _, k := range r.Keys {
			n, err := t.Exec("UPDATE tenant_keys SET wrapped = ? WHERE tenant = ? AND version = ?", k.Wrapped, string(k.Tenant), k.Version)
			if err != nil {
				return err
			}
			if n != 1 {
				return vault.ErrConflict
			}
		}
		if err := t.addKey(r.Files); err != nil {
			return err
		}
		_, err := t.Exec("UPDATE vault SET check_value = ?", r.To)
		return err
	})
}

// Lock implements [vault.Store].
func (s *Store) Lock(ctx context.Context) (l vault.Lock, err error) {
	_, err = s.get(ctx, "read the lock", "SELECT locked, locked_by, locked_until FROM vault", nil, moment{&l.Since}, &l.By, moment{&l.Until})
	return l, err
}

// SetLock implements [vault.Store].
func (s *Store) SetLock(ctx context.Context, l vault.Lock) error {
	changed, err := s.changed(ctx, "lock the vault", "UPDATE vault SET locked = ?, locked_by = ?, locked_until = ?", micros(l.Since), l.By, micros(l.Until))
	if err == nil && !changed {
		return vault.ErrConflict
	}
	return err
}
