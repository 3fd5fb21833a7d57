package tables

import (
	"context"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// AddVote implements [approval.Store].
func (s *Store) AddVote(ctx context.Context, v approval.Vote) (bool, error) {
	return s.changed(ctx, "store a vote", `INSERT INTO votes (tenant, approval, who, proof, given) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (tenant, approval, who) DO NOTHING`, string(v.Tenant), v.Approval, v.Who, v.Proof, micros(v.Given))
}

// Votes implements [approval.Store].
func (s *Store) Votes(ctx context.Context, tenant runtime.Tenant, id string) ([]approval.Vote, error) {
	return collect(ctx, s, "read votes", "SELECT tenant, approval, who, proof, given FROM votes WHERE tenant = ? AND approval = ? ORDER BY given, who",
		[]any{string(tenant), id}, func(row Row) (v approval.Vote, err error) {
			return v, row.Scan(&v.Tenant, &v.Approval, &v.Who, &v.Proof, moment{&v.Given})
		})
}

// AddGrant implements [approval.Store].
func (s *Store) AddGrant(ctx context.Context, g approval.Grant) error {
	_, err := s.changed(ctx, "store a grant", "INSERT INTO grants (tenant, id, scope, sealed, expires, revoked) VALUES (?, ?, ?, ?, ?, ?)",
		string(g.Tenant), g.ID, g.Scope, g.Sealed, micros(g.Expires), micros(g.Revoked))
	return err
}

// Grants implements [approval.Store].
func (s *Store) Grants(ctx context.Context, tenant runtime.Tenant, scope string, now time.Time) ([]approval.Grant, error) {
	return collect(ctx, s, "look for grants", `SELECT tenant, id, scope, sealed, expires, revoked FROM grants
		WHERE tenant = ?1 AND (scope = ?2 OR ?2 = '') AND revoked = 0 AND expires > ?3 ORDER BY expires DESC, id`,
		[]any{string(tenant), scope, micros(now)}, func(row Row) (g approval.Grant, err error) {
			return g, row.Scan(&g.Tenant, &g.ID, &g.Scope, &g.Sealed, moment{&g.Expires}, moment{&g.Revoked})
		})
}

// RevokeGrant implements [approval.Store].
func (s *Store) RevokeGrant(ctx context.Context, tenant runtime.Tenant, id string, at time.Time) (bool, error) {
	return s.changed(ctx, "revoke a grant", "UPDATE grants SET revoked = ? WHERE tenant = ? AND id = ? AND revoked = 0",
		micros(at), string(tenant), id)
}

// Pins implements [approval.Store].
func (s *Store) Pins(ctx context.Context, tenant runtime.Tenant) ([]approval.Pin, error) {
	return s.pins(ctx, "WHERE tenant = ? ORDER BY who", string(tenant))
}

// AllPins implements [approval.Store].
func (s *Store) AllPins(ctx context.Context) ([]approval.Pin, error) {
	return s.pins(ctx, "ORDER BY tenant, who")
}

func (s *Store) pins(ctx context.Context, which string, args ...any) ([]approval.Pin, error) {
	return collect(ctx, s, "read PINs", "SELECT tenant, who, sealed, set_at, tries, until FROM pins "+which,
		args, func(row Row) (p approval.Pin, err error) {
			return p, row.Scan(&p.Tenant, &p.Who, &p.Sealed, moment{&p.Set}, &p.Tries, moment{&p.Until})
		})
}

// PutPin implements [approval.Store].
func (s *Store) PutPin(ctx context.Context, p approval.Pin) error {
	_, err := s.changed(ctx, "store a PIN", `INSERT INTO pins (tenant, who, sealed, set_at, tries, until) VALUES (?, ?, ?, ?, 0, 0)
		ON CONFLICT (tenant, who) DO UPDATE SET sealed = excluded.sealed, set_at = excluded.set_at, tries = 0, until = 0`,
		string(p.Tenant), p.Who, p.Sealed, micros(p.Set))
	return err
}

// RemovePin implements [approval.Store].
func (s *Store) RemovePin(ctx context.Context, tenant runtime.Tenant, who string) (bool, error) {
	return s.changed(ctx, "remove a PIN", "DELETE FROM pins WHERE tenant = ? AND who = ?", string(tenant), who)
}

// TryPin implements [approval.Store].
func (s *Store) TryPin(ctx context.Context, tenant runtime.Tenant, who string, tries int, until time.Time) (bool, error) {
	return s.changed(ctx, "count a try of a PIN", "UPDATE pins SET tries = tries + 1, until = ? WHERE tenant = ? AND who = ? AND tries = ?",
		micros(until), string(tenant), who, tries)
}

// ClearTries implements [approval.Store].
func (s *Store) ClearTries(ctx context.Context, tenant runtime.Tenant, who string) error {
	_, err := s.changed(ctx, "forget tries of a PIN", "UPDATE pins SET tries = 0, until = 0 WHERE tenant = ? AND who = ?", string(tenant), who)
	return err
}
