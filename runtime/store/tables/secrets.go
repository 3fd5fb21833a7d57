package tables

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// CheckValue implements [vault.Store].
func (s *Store) CheckValue(ctx context.Context) ([]byte, error) {
	var value []byte
	_, err := s.get(ctx, "read the key check value", "SELECT check_value FROM vault", nil, &value)
	return value, err
}

// SetCheckValue implements [vault.Store].
func (s *Store) SetCheckValue(ctx context.Context, value []byte) error {
	added, err := s.changed(ctx, "store the key check value", "INSERT INTO vault (id, check_value) VALUES (1, ?) ON CONFLICT DO NOTHING", value)
	if err == nil && !added {
		return vault.ErrConflict
	}
	return err
}

// PutSecrets implements [vault.Store].
func (s *Store) PutSecrets(ctx context.Context, rows ...vault.Sealed) error {
	return s.write(ctx, "store a secret", func(t Tx) error {
		if err := t.alone(); err != nil {
			return err
		}
		for _, s := range rows {
			version, key := 0, 0
			if _, err := t.get("SELECT version FROM secrets WHERE tenant = ? AND name = ?", []any{string(s.Tenant), s.Name}, &version); err != nil {
				return err
			}
			if _, err := t.get(newestKey, []any{string(s.Tenant)}, &key); err != nil {
				return err
			}
			if s.Version != version+1 || s.KeyVersion != key {
				return vault.ErrConflict
			}
			if err := t.putSecret(s); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t Tx) putSecret(s vault.Sealed) error {
	_, err := t.Exec(`INSERT INTO secrets (`+secretColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (tenant, name) DO UPDATE SET version = excluded.version, key_version = excluded.key_version,
		authorities = excluded.authorities, reference = excluded.reference, ciphertext = excluded.ciphertext,
		created = excluded.created, last_used = excluded.last_used, expires = excluded.expires,
		fingerprints = excluded.fingerprints`,
		string(s.Tenant), s.Name, s.Version, s.KeyVersion, list(s.Authorities), s.Reference, s.Ciphertext,
		micros(s.Created), micros(s.LastUsed), micros(s.Expires), list(s.Fingerprints))
	return err
}

const secretColumns = "tenant, name, version, key_version, authorities, reference, ciphertext, created, last_used, expires, fingerprints"

func scanSecret(row Row) (s vault.Sealed, err error) {
	return s, row.Scan(&s.Tenant, &s.Name, &s.Version, &s.KeyVersion, items[string]{&s.Authorities}, &s.Reference, &s.Ciphertext,
		moment{&s.Created}, moment{&s.LastUsed}, moment{&s.Expires}, items[string]{&s.Fingerprints})
}

// Secret implements [vault.Store].
func (s *Store) Secret(ctx context.Context, tenant runtime.Tenant, name string) (vault.Sealed, bool, error) {
	found, err := collect(ctx, s, "read a secret", "SELECT "+secretColumns+" FROM secrets WHERE tenant = ? AND name = ?",
		[]any{string(tenant), name}, scanSecret)
	if err != nil || len(found) == 0 {
		return vault.Sealed{}, false, err
	}
	return found[0], true, nil
}

// Secrets implements [vault.Store].
func (s *Store) Secrets(ctx context.Context, tenant runtime.Tenant) ([]vault.Sealed, error) {
	return collect(ctx, s, "list secrets", "SELECT "+secretColumns+" FROM secrets WHERE tenant = ? ORDER BY name",
		[]any{string(tenant)}, scanSecret)
}

// Strays implements [vault.Store]. The key of no tenant is that of files.
func (s *Store) Strays(ctx context.Context) (n int, err error) {
	_, err = s.get(ctx, "look for stray secrets", "SELECT COUNT(*) FROM secrets WHERE tenant = '' OR tenant NOT IN (SELECT tenant FROM tenant_keys)", nil, &n)
	return n, err
}

// RemoveSecret implements [vault.Store].
func (s *Store) RemoveSecret(ctx context.Context, tenant runtime.Tenant, name string) (bool, error) {
	return s.changed(ctx, "remove a secret", "DELETE FROM secrets WHERE tenant = ? AND name = ?", string(tenant), name)
}

// Touch implements [vault.Store].
func (s *Store) Touch(ctx context.Context, tenant runtime.Tenant, used map[string]time.Time) error {
	if len(used) == 0 {
		return nil
	}
	return s.write(ctx, "note last uses", func(t Tx) error {
		// In one order: two that wait for each other would wait until one is ended.
		for _, name := range slices.Sorted(maps.Keys(used)) {
			// A use from before a value that nobody has used yet was of the one before it.
			_, err := t.Exec("UPDATE secrets SET last_used = ?1 WHERE tenant = ?2 AND name = ?3 AND last_used < ?1 AND (created <= ?1 OR last_used > 0)",
				micros(used[name]), string(tenant), name)
			if err != nil {
				return err
			}
		}
		return nil
	})
}
