package sqlite

import (
	"context"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/identity"
)

const tokenColumns = "hash, id, tenant, agent, run, scopes, roles, groups, creator, created, expires, revoked"

// AddToken implements [identity.Store].
func (db *DB) AddToken(ctx context.Context, t identity.Token) error {
	return db.write(ctx, "store a token", func(w tx) error {
		_, err := w.exec("INSERT INTO tokens ("+tokenColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			t.Hash[:], t.ID, string(t.Tenant), t.Agent, t.Run, list(t.Scopes), list(t.Roles), list(t.Groups), t.Creator,
			micros(t.Created), micros(t.Expires), micros(t.Revoked))
		if err != nil {
			return err
		}
		_, err = w.exec("DELETE FROM tokens WHERE hash IN (SELECT hash FROM tokens WHERE tenant = ? AND expires > 0 AND expires < ? LIMIT ?)",
			string(t.Tenant), micros(t.Created.Add(-identity.EndedKept)), dropsOnce)
		return err
	})
}

func scanToken(row scanner) (t identity.Token, err error) {
	var hash []byte
	err = row.Scan(&hash, &t.ID, &t.Tenant, &t.Agent, &t.Run, items[runtime.Scope]{&t.Scopes}, items[string]{&t.Roles}, items[string]{&t.Groups},
		&t.Creator, moment{&t.Created}, moment{&t.Expires}, moment{&t.Revoked})
	copy(t.Hash[:], hash)
	return t, err
}

// TokenByHash implements [identity.Store].
func (db *DB) TokenByHash(ctx context.Context, hash [32]byte) (identity.Token, bool, error) {
	found, err := collect(ctx, db, "look up a token", "SELECT "+tokenColumns+" FROM tokens WHERE hash = ?", []any{hash[:]}, scanToken)
	if err != nil || len(found) == 0 {
		return identity.Token{}, false, err
	}
	return found[0], true, nil
}

// Tokens implements [identity.Store].
func (db *DB) Tokens(ctx context.Context, tenant runtime.Tenant) ([]identity.Token, error) {
	return collect(ctx, db, "list tokens", "SELECT "+tokenColumns+" FROM tokens WHERE tenant = ? ORDER BY created DESC, id DESC",
		[]any{string(tenant)}, scanToken)
}

// ProlongToken implements [identity.Store].
func (db *DB) ProlongToken(ctx context.Context, tenant runtime.Tenant, id string, until time.Time) (bool, error) {
	return db.changed(ctx, "prolong a token", "UPDATE tokens SET expires = ? WHERE tenant = ? AND id = ? AND revoked = 0",
		micros(until), string(tenant), id)
}

// RevokeToken implements [identity.Store].
func (db *DB) RevokeToken(ctx context.Context, tenant runtime.Tenant, id string, at time.Time) (bool, error) {
	return db.changed(ctx, "revoke a token", "UPDATE tokens SET revoked = ? WHERE tenant = ? AND id = ? AND revoked = 0",
		micros(at), string(tenant), id)
}
