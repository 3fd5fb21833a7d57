package tables

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// The columns of an approval: those of its row, and what is sealed of it, which who only
// looks at it does not read.
const (
	rowColumns = `id, tenant, state, principal, agent, run, surface, action, risk, rule, reason, method, authority, path,
	digest, created, expires, decided, decider, presence, note, holder, ended, teller`
	glanceColumns   = rowColumns + ", NULL, NULL, NULL"
	approvalColumns = rowColumns + `, proof, kept,
	(SELECT sealed FROM held WHERE held.tenant = approvals.tenant AND held.approval = approvals.id)`
)

// AddApproval implements [approval.Store].
func (s *Store) AddApproval(ctx context.Context, a approval.Approval) error {
	return s.write(ctx, "store an approval", func(t Tx) error { return t.addApproval(a) })
}

// Ask implements [approval.Store].
func (s *Store) Ask(ctx context.Context, a approval.Approval, refused approval.Between, most int) (open approval.Approval, found bool, err error) {
	err = s.write(ctx, "store an approval", func(t Tx) error {
		if err := t.Turn(fmt.Sprintf("ask %q %q", a.Tenant, a.Principal)); err != nil {
			return err
		}
		found = false // a transaction may run twice
		err := t.Query("SELECT "+glanceColumns+" FROM approvals WHERE "+openApproval, []any{string(a.Tenant), a.Principal, a.Digest, micros(refused.After), micros(refused.Until)}, func(row Row) (err error) {
			found = true
			open, err = scanApproval(row)
			return err
		})
		if err != nil || found {
			return err
		}
		pending := 0
		if _, err := t.get(countPending, []any{string(a.Tenant), a.Principal}, &pending); err != nil {
			return err
		}
		if pending >= most {
			return approval.ErrCrowded
		}
		return t.addApproval(a)
	})
	if err != nil || !found {
		return approval.Approval{}, false, err
	}
	return open, true, nil
}

func (t Tx) addApproval(a approval.Approval) error {
	_, err := t.Exec("INSERT INTO approvals ("+rowColumns+
		", proof) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		a.ID, string(a.Tenant), string(a.State), a.Principal, a.Agent, a.Run, string(a.Surface), string(a.Action), string(a.Risk),
		a.Rule, a.Reason, a.Method, a.Authority, a.Path, a.Digest, micros(a.Created), micros(a.Expires),
		micros(a.Decided), a.By, a.Presence, a.Note, a.Holder, micros(a.Ended), a.Teller, blob(a.Proof))
	if err != nil || len(a.Sealed) == 0 {
		return err
	}
	_, err = t.Exec("INSERT INTO held (tenant, approval, sealed) VALUES (?, ?, ?)", string(a.Tenant), a.ID, a.Sealed)
	return err
}

func scanApproval(row Row) (a approval.Approval, err error) {
	return a, row.Scan(&a.ID, &a.Tenant, &a.State, &a.Principal, &a.Agent, &a.Run, &a.Surface, &a.Action, &a.Risk, &a.Rule, &a.Reason,
		&a.Method, &a.Authority, &a.Path, &a.Digest, moment{&a.Created}, moment{&a.Expires}, moment{&a.Decided},
		&a.By, &a.Presence, &a.Note, &a.Holder, moment{&a.Ended}, &a.Teller, &a.Proof, &a.Kept, &a.Sealed)
}

// approvalOf returns these columns of the first approval that a query finds.
func (s *Store) approvalOf(ctx context.Context, columns, where string, args ...any) (approval.Approval, bool, error) {
	found, err := collect(ctx, s, "read an approval", "SELECT "+columns+" FROM approvals WHERE "+where, args, scanApproval)
	if err != nil || len(found) == 0 {
		return approval.Approval{}, false, err
	}
	return found[0], true, nil
}

// Approval implements [approval.Store].
func (s *Store) Approval(ctx context.Context, tenant runtime.Tenant, id string) (approval.Approval, bool, error) {
	return s.approvalOf(ctx, approvalColumns, "tenant = ? AND id = ?", string(tenant), id)
}

// Glance implements [approval.Store].
func (s *Store) Glance(ctx context.Context, tenant runtime.Tenant, id string) (approval.Approval, bool, error) {
	return s.approvalOf(ctx, glanceColumns, "tenant = ? AND id = ?", string(tenant), id)
}

// openApproval selects what [approval.Store] calls open.
const openApproval = `tenant = ?1 AND principal = ?2 AND digest = ?3
	AND state IN ('pending', 'approved', 'rejected') AND (state <> 'rejected' OR decided > ?4 AND decided <= ?5)
	ORDER BY created DESC, id DESC LIMIT 1`

// OpenApproval implements [approval.Store].
func (s *Store) OpenApproval(ctx context.Context, tenant runtime.Tenant, principal, digest string, refused approval.Between) (approval.Approval, bool, error) {
	return s.approvalOf(ctx, glanceColumns, openApproval, string(tenant), principal, digest, micros(refused.After), micros(refused.Until))
}

// LastApproved implements [approval.Store].
func (s *Store) LastApproved(ctx context.Context, tenant runtime.Tenant, action runtime.Ref) (approval.Approval, bool, error) {
	return s.approvalOf(ctx, approvalColumns, `tenant = ? AND action = ? AND decided > 0 AND proof IS NOT NULL
		ORDER BY decided DESC, id DESC LIMIT 1`, string(tenant), string(action))
}

// Approvals implements [approval.Store].
func (s *Store) Approvals(ctx context.Context, tenant runtime.Tenant, principal string, states []approval.State, limit int) ([]approval.Approval, error) {
	text, args := "SELECT "+glanceColumns+" FROM approvals WHERE tenant = ?", []any{string(tenant)}
	if principal != "" {
		text, args = text+" AND principal = ?", append(args, principal)
	}
	if len(states) > 0 {
		names, err := json.Marshal(states)
		if err != nil {
			return nil, err
		}
		text, args = text+" AND state IN ("+s.engine.Dialect().Members+")", append(args, string(names))
	}
	return collect(ctx, s, "list approvals", text+" ORDER BY created DESC, id DESC LIMIT ?", append(args, limit), scanApproval)
}

// countPending counts the pending approvals of a principal.
const countPending = "SELECT count(*) FROM approvals WHERE tenant = ? AND principal = ? AND state = 'pending'"

// PendingOf implements [approval.Store].
func (s *Store) PendingOf(ctx context.Context, tenant runtime.Tenant, principal string) (int, error) {
	n := 0
	_, err := s.get(ctx, "count approvals", countPending, []any{string(tenant), principal}, &n)
	return n, err
}

// Move implements [approval.Store].
func (s *Store) Move(ctx context.Context, tenant runtime.Tenant, id string, from, to approval.State, c approval.Change) (bool, error) {
	var decided, ended any
	switch to {
	case approval.Approved, approval.Rejected:
		decided = known(c.At)
	case approval.Executed, approval.Failed, approval.Unknown:
		ended = known(c.At)
	}
	return s.changed(ctx, "move an approval", `UPDATE approvals SET state = ?4,
		decided  = coalesce(?5, decided),
		ended    = coalesce(?6, ended),
		decider  = CASE ?7  WHEN '' THEN decider ELSE ?7 END,
		presence = CASE ?8  WHEN '' THEN presence ELSE ?8 END,
		note     = CASE ?9  WHEN '' THEN note ELSE ?9 END,
		holder   = CASE ?10 WHEN '' THEN holder ELSE ?10 END,
		proof    = coalesce(?11, proof)
		WHERE tenant = ?1 AND id = ?2 AND state = ?3`,
		string(tenant), id, string(from), string(to), decided, ended, c.By, c.Presence, c.Note, c.Holder, blob(c.Proof))
}

// SetTeller implements [approval.Store].
func (s *Store) SetTeller(ctx context.Context, tenant runtime.Tenant, ids []string, from, to string) (bool, error) {
	names, err := json.Marshal(ids)
	if err != nil {
		return false, err
	}
	return s.changed(ctx, "note who tells of an approval", `UPDATE approvals SET teller = ? WHERE tenant = ? AND teller = ?
		AND (state = 'pending' OR ? = '') AND id IN (`+s.engine.Dialect().Members+")", to, string(tenant), from, to, string(names))
}

// closed are the states of [approval.State.Closed], as SQL.
const closed = "('rejected', 'expired', 'executed', 'failed', 'unknown')"

// Unreleased implements [approval.Store]. It goes through what is held, which is little,
// and not through all that was ever closed (CROSS JOIN keeps the order).
func (s *Store) Unreleased(ctx context.Context, tenant runtime.Tenant, limit int) ([]string, error) {
	return collect(ctx, s, "look for what is held", `SELECT id FROM held CROSS JOIN approvals
		WHERE held.tenant = ? AND approvals.tenant = held.tenant AND approvals.id = held.approval AND state IN `+closed+" LIMIT ?", []any{string(tenant), limit}, func(row Row) (id string, err error) {
		return id, row.Scan(&id)
	})
}

// forgetting is the turn of who removes approvals or what they hold: each goes from one to
// the other in its own direction, and two would wait for each other.
const forgetting = "forget approvals"

// Release implements [approval.Store].
func (s *Store) Release(ctx context.Context, tenant runtime.Tenant, id string, kept []byte) (released bool, err error) {
	err = s.write(ctx, "release what is held", func(t Tx) error {
		if err := t.Turn(forgetting); err != nil {
			return err
		}
		n, err := t.Exec(`DELETE FROM held WHERE tenant = ?1 AND approval = ?2
			AND EXISTS (SELECT 1 FROM approvals WHERE tenant = ?1 AND id = ?2 AND state IN `+closed+")", string(tenant), id)
		if released = n > 0; err != nil || !released {
			return err
		}
		_, err = t.Exec("UPDATE approvals SET kept = ? WHERE tenant = ? AND id = ?", blob(kept), string(tenant), id)
		return err
	})
	return released && err == nil, err
}

// dropsOnce is how many approvals one transaction removes, and how many bytes of what they
// hold yet, but for one that has more: others wait for it.
const (
	dropsOnce = 200
	dropBytes = 8 << 20
)

// DropApprovals removes the closed approvals of all tenants that were made, decided, ended
// and would have expired before then, with their votes.
func (s *Store) DropApprovals(ctx context.Context, before time.Time) error {
	for more := true; more; {
		err := s.write(ctx, "forget approvals", func(t Tx) error {
			if err := t.Turn(forgetting); err != nil {
				return err
			}
			n, err := t.Exec(`DELETE FROM approvals WHERE (tenant, id) IN (SELECT tenant, id FROM (
				SELECT old.tenant, old.id, row_number() OVER line AS place, sum(coalesce(length(sealed), 0)) OVER line AS bytes FROM (
					SELECT tenant, id FROM approvals WHERE state IN `+closed+`
					AND created < ?1 AND decided < ?1 AND ended < ?1 AND expires < ?1 LIMIT ?2) AS old
				LEFT JOIN held ON held.tenant = old.tenant AND held.approval = old.id
				WINDOW line AS (ORDER BY old.tenant, old.id)) AS those WHERE place = 1 OR bytes <= ?3)`, micros(before), dropsOnce, dropBytes)
			if more = n > 0; err != nil || n == 0 {
				return err
			}
			_, err = t.Exec(`DELETE FROM votes WHERE NOT EXISTS
				(SELECT 1 FROM approvals WHERE approvals.tenant = votes.tenant AND approvals.id = votes.approval)`)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// blob is NULL for no bytes.
func blob(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// Beat implements [approval.Store].
func (s *Store) Beat(ctx context.Context, tenant runtime.Tenant, who string, until time.Time) error {
	_, err := s.changed(ctx, "note a watcher", `INSERT INTO watchers (tenant, who, until) VALUES (?, ?, ?)
		ON CONFLICT (tenant, who) DO UPDATE SET until = excluded.until`, string(tenant), who, micros(until))
	return err
}

// Watched implements [approval.Store].
func (s *Store) Watched(ctx context.Context, tenant runtime.Tenant, until approval.Between) (bool, error) {
	watched := false
	_, err := s.get(ctx, "look for watchers", "SELECT EXISTS (SELECT 1 FROM watchers WHERE tenant = ? AND until > ? AND until <= ?)",
		[]any{string(tenant), micros(until.After), micros(until.Until)}, &watched)
	return watched, err
}
