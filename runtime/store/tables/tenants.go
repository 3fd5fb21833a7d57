package tables

import (
	"context"
	"slices"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// ofTenant are the statements that remove what a tenant has. The index of the
// trail is not among them: records stay.
var ofTenant = []string{
	"DELETE FROM secrets WHERE tenant = ?",
	"DELETE FROM tenant_keys WHERE tenant = ?",
	"DELETE FROM tokens WHERE tenant = ?",
	"DELETE FROM votes WHERE tenant = ?",
	"DELETE FROM grants WHERE tenant = ?",
	"DELETE FROM approvals WHERE tenant = ?", // with what they hold
	"DELETE FROM watchers WHERE tenant = ?",
	"DELETE FROM pins WHERE tenant = ?",
	"DELETE FROM executions WHERE tenant = ?", // with their calls
}

// DropTenant removes all that is kept of a tenant, its keys included, in one
// transaction. Before that it tells may, within it, the ids of the tokens that are
// valid at that time and of the approvals that nobody has decided, and how many
// credentials there are; an error of may changes nothing.
func (s *Store) DropTenant(ctx context.Context, tenant runtime.Tenant, now time.Time, may func(tokens, pending []string, credentials int) error) error {
	return s.write(ctx, "remove a tenant", func(t Tx) error {
		if err := t.Turn(forgetting); err != nil {
			return err
		}
		if err := t.Alone("vault", "tenant_keys", "secrets", "tokens", "approvals", "votes", "grants", "pins", "executions"); err != nil {
			return err
		}
		tokens, err := t.ids("SELECT id FROM tokens WHERE tenant = ? AND revoked = 0 AND expires > ? ORDER BY id", string(tenant), micros(now))
		if err != nil {
			return err
		}
		pending, err := t.ids("SELECT id FROM approvals WHERE tenant = ? AND state = 'pending' AND expires > ? ORDER BY id", string(tenant), micros(now))
		if err != nil {
			return err
		}
		credentials := 0
		if _, err := t.get("SELECT COUNT(*) FROM secrets WHERE tenant = ?", []any{string(tenant)}, &credentials); err != nil {
			return err
		}
		if err := may(tokens, pending, credentials); err != nil {
			return err
		}
		for _, statement := range slices.Concat(ofTenant, []string{"DELETE FROM limits WHERE " + s.engine.Dialect().BucketOf}) {
			if _, err := t.Exec(statement, string(tenant)); err != nil {
				return err
			}
		}
		return nil
	})
}

// KeepsOf reports whether anything is kept of a tenant that an operator would miss
// or that must not become another's. Who watches and what limits have been used
// are neither.
func (s *Store) KeepsOf(ctx context.Context, tenant runtime.Tenant) (bool, error) {
	keeps := false
	_, err := s.get(ctx, "look for a tenant", `SELECT EXISTS (SELECT 1 FROM secrets WHERE tenant = ?1)
		OR EXISTS (SELECT 1 FROM tenant_keys WHERE tenant = ?1) OR EXISTS (SELECT 1 FROM tokens WHERE tenant = ?1)
		OR EXISTS (SELECT 1 FROM approvals WHERE tenant = ?1) OR EXISTS (SELECT 1 FROM grants WHERE tenant = ?1)
		OR EXISTS (SELECT 1 FROM pins WHERE tenant = ?1) OR EXISTS (SELECT 1 FROM executions WHERE tenant = ?1)`,
		[]any{string(tenant)}, &keeps)
	return keeps, err
}
