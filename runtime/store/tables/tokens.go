package tables

import (
	"context"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/identity"
)

const tokenColumns = "hash, id, tenant, agent, run, scopes, roles, groups, creator, created, expires, revoked"

// AddToken implements [identity.Store].
func (s *Store) AddToken(ctx context.Context, t identity.Token) error {
	return s.write(ctx, "store a token", func(w Tx) error {
		_, err := w.Exec("INSERT INTO tokens ("+tokenColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			t.Hash[:], t.ID, string(t.Tenant), t.Agent, t.Run, list(t.Scopes), list(t.Roles), list(t.Groups), t.Creator,
			micros(t.Created), micros(t.Expires), micros(t.Revoked))
		if err != nil {
			return err
		}
		_, err = w.Exec("DELETE FROM tokens WHERE hash IN (SELECT hash FROM tokens WHERE tenant = ? AND expires > 0 AND expires < ? LIMIT ?)",
			string(t.Tenant), micros(t.Created.Add(-identity.EndedKept)), dropsOnce)
		return err
	})
}

func scanToken(row Row) (t identity.Token, err error) {
	var hash []byte
	err = row.Scan(&hash, &t.ID, &t.Tenant, &t.Agent, &t.Run, items[runtime.Scope]{&t.Scopes}, items[string]{&t.Roles}, items[string]{&t.Groups},
		&t.Creator, moment{&t.Created}, moment{&t.Expires}, moment{&t.Revoked})
	copy(t.Hash[:], hash)
	return t, err
}

// TokenByHash implements [identity.Store].
func (s *Store) TokenByHash(ctx context.Context, hash [32]byte) (identity.Token, bool, error) {
	found, err := collect(ctx, s, "look up a token", "SELECT "+tokenColumns+" FROM tokens WHERE hash = ?", []any{hash[:]}, scanToken)
	if err != nil || len(found) == 0 {
		return identity.Token{}, false, err
	}
	return found[0], true, nil
}

// Tokens implements [identity.Store].
func (s *Store) Tokens(ctx context.Context, tenant runtime.Tenant) ([]identity.Token, error) {
	return collect(ctx, s, "list tokens", "SELECT "+tokenColumns+" FROM tokens WHERE tenant = ? ORDER BY created DESC, id DESC",
		[]any{string(tenant)}, scanToken)
}

// RunTokens implements [identity.Store].
func (s *Store) RunTokens(ctx context.Context) ([]identity.Token, error) {
	return collect(ctx, s, "list tokens of runs", "SELECT "+tokenColumns+" FROM tokens WHERE run <> '' AND revoked = 0 ORDER BY tenant, created, id",
		nil, scanToken)
}

// ProlongToken implements [identity.Store].
func (s *Store) ProlongToken(ctx context.Context, tenant runtime.Tenant, id string, until time.Time) (bool, error) {
	return s.changed(ctx, "prolong a token", "UPDATE tokens SET expires = ? WHERE tenant = ? AND id = ? AND revoked = 0",
		micros(until), string(tenant), id)
}

// RevokeToken implements [identity.Store].
func (s *Store) RevokeToken(ctx context.Context, tenant runtime.Tenant, id string, at time.Time) (bool, error) {
	return s.changed(ctx, "revoke a token", "UPDATE tokens SET revoked = ? WHERE tenant = ? AND id = ? AND revoked = 0",
		micros(at), string(tenant), id)
}
