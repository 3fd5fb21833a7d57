package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// The columns of an approval: those of its row, and what is sealed of it, which who only
// looks at it does not read.
const (
	rowColumns = `id, tenant, state, principal, agent, run, surface, action, risk, rule, reason, method, authority, path,
	digest, created, expires, decided, decider, presence, note, holder, ended`
	glanceColumns   = rowColumns + ", NULL, NULL, NULL"
	approvalColumns = rowColumns + `, proof, kept,
	(SELECT sealed FROM held WHERE held.tenant = approvals.tenant AND held.approval = approvals.id)`
)

// AddApproval implements [approval.Store].
func (db *DB) AddApproval(ctx context.Context, a approval.Approval) error {
	return db.write(ctx, "store an approval", func(t tx) error {
		_, err := t.exec("INSERT INTO approvals ("+rowColumns+
			", proof) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			a.ID, string(a.Tenant), string(a.State), a.Principal, a.Agent, a.Run, string(a.Surface), string(a.Action), string(a.Risk),
			a.Rule, a.Reason, a.Method, a.Authority, a.Path, a.Digest, micros(a.Created), micros(a.Expires),
			micros(a.Decided), a.By, a.Presence, a.Note, a.Holder, micros(a.Ended), blob(a.Proof))
		if err != nil || len(a.Sealed) == 0 {
			return err
		}
		_, err = t.exec("INSERT INTO held (tenant, approval, sealed) VALUES (?, ?, ?)", string(a.Tenant), a.ID, a.Sealed)
		return err
	})
}

func scanApproval(row scanner) (a approval.Approval, err error) {
	return a, row.Scan(&a.ID, &a.Tenant, &a.State, &a.Principal, &a.Agent, &a.Run, &a.Surface, &a.Action, &a.Risk, &a.Rule, &a.Reason,
		&a.Method, &a.Authority, &a.Path, &a.Digest, moment{&a.Created}, moment{&a.Expires}, moment{&a.Decided},
		&a.By, &a.Presence, &a.Note, &a.Holder, moment{&a.Ended}, &a.Proof, &a.Kept, &a.Sealed)
}

// approvalOf returns these columns of the first approval that a query finds.
func (db *DB) approvalOf(ctx context.Context, columns, where string, args ...any) (approval.Approval, bool, error) {
	found, err := collect(ctx, db, "read an approval", "SELECT "+columns+" FROM approvals WHERE "+where, args, scanApproval)
	if err != nil || len(found) == 0 {
		return approval.Approval{}, false, err
	}
	return found[0], true, nil
}

// Approval implements [approval.Store].
func (db *DB) Approval(ctx context.Context, tenant runtime.Tenant, id string) (approval.Approval, bool, error) {
	return db.approvalOf(ctx, approvalColumns, "tenant = ? AND id = ?", string(tenant), id)
}

// Glance implements [approval.Store].
func (db *DB) Glance(ctx context.Context, tenant runtime.Tenant, id string) (approval.Approval, bool, error) {
	return db.approvalOf(ctx, glanceColumns, "tenant = ? AND id = ?", string(tenant), id)
}

// OpenApproval implements [approval.Store].
func (db *DB) OpenApproval(ctx context.Context, tenant runtime.Tenant, principal, digest string, refused time.Time) (approval.Approval, bool, error) {
	return db.approvalOf(ctx, glanceColumns, `tenant = ?1 AND principal = ?2 AND digest = ?3
		AND state IN ('pending', 'approved', 'rejected') AND (state <> 'rejected' OR decided > ?4)
		ORDER BY created DESC, id DESC LIMIT 1`, string(tenant), principal, digest, micros(refused))
}

// LastApproved implements [approval.Store].
func (db *DB) LastApproved(ctx context.Context, tenant runtime.Tenant, action runtime.Ref) (approval.Approval, bool, error) {
	return db.approvalOf(ctx, approvalColumns, `tenant = ? AND action = ? AND decided > 0 AND proof IS NOT NULL
		ORDER BY decided DESC, id DESC LIMIT 1`, string(tenant), string(action))
}

// Approvals implements [approval.Store].
func (db *DB) Approvals(ctx context.Context, tenant runtime.Tenant, principal string, states []approval.State, limit int) ([]approval.Approval, error) {
	text, args := "SELECT "+glanceColumns+" FROM approvals WHERE tenant = ?", []any{string(tenant)}
	if principal != "" {
		text, args = text+" AND principal = ?", append(args, principal)
	}
	if len(states) > 0 {
		names, err := json.Marshal(states)
		if err != nil {
			return nil, err
		}
		text, args = text+" AND state IN (SELECT value FROM json_each(?))", append(args, string(names))
	}
	return collect(ctx, db, "list approvals", text+" ORDER BY created DESC, id DESC LIMIT ?", append(args, limit), scanApproval)
}

// PendingOf implements [approval.Store].
func (db *DB) PendingOf(ctx context.Context, tenant runtime.Tenant, principal string) (int, error) {
	n := 0
	_, err := db.get(ctx, "count approvals", "SELECT count(*) FROM approvals WHERE tenant = ? AND principal = ? AND state = 'pending'",
		[]any{string(tenant), principal}, &n)
	return n, err
}

// Move implements [approval.Store].
func (db *DB) Move(ctx context.Context, tenant runtime.Tenant, id string, from, to approval.State, c approval.Change) (bool, error) {
	var decided, ended int64
	switch to {
	case approval.Approved, approval.Rejected:
		decided = micros(c.At)
	case approval.Executed, approval.Failed, approval.Unknown:
		ended = micros(c.At)
	}
	return db.changed(ctx, "move an approval", `UPDATE approvals SET state = ?4,
		decided  = CASE ?5  WHEN 0 THEN decided ELSE ?5 END,
		ended    = CASE ?6  WHEN 0 THEN ended ELSE ?6 END,
		decider  = CASE ?7  WHEN '' THEN decider ELSE ?7 END,
		presence = CASE ?8  WHEN '' THEN presence ELSE ?8 END,
		note     = CASE ?9  WHEN '' THEN note ELSE ?9 END,
		holder   = CASE ?10 WHEN '' THEN holder ELSE ?10 END,
		proof    = coalesce(?11, proof)
		WHERE tenant = ?1 AND id = ?2 AND state = ?3`,
		string(tenant), id, string(from), string(to), decided, ended, c.By, c.Presence, c.Note, c.Holder, blob(c.Proof))
}

// closed are the states of [approval.State.Closed], as SQL.
const closed = "('rejected', 'expired', 'executed', 'failed', 'unknown')"

// Unreleased implements [approval.Store]. It goes through what is held, which is little,
// and not through all that was ever closed (CROSS JOIN keeps the order).
func (db *DB) Unreleased(ctx context.Context, tenant runtime.Tenant, limit int) ([]string, error) {
	return collect(ctx, db, "look for what is held", `SELECT id FROM held CROSS JOIN approvals ON approvals.tenant = held.tenant AND approvals.id = held.approval
		WHERE held.tenant = ? AND state IN `+closed+" LIMIT ?", []any{string(tenant), limit}, func(row scanner) (id string, err error) {
		return id, row.Scan(&id)
	})
}

// Release implements [approval.Store].
func (db *DB) Release(ctx context.Context, tenant runtime.Tenant, id string, kept []byte) (released bool, err error) {
	err = db.write(ctx, "release what is held", func(t tx) error {
		n, err := t.exec(`DELETE FROM held WHERE tenant = ?1 AND approval = ?2
			AND EXISTS (SELECT 1 FROM approvals WHERE tenant = ?1 AND id = ?2 AND state IN `+closed+")", string(tenant), id)
		if released = n > 0; err != nil || !released {
			return err
		}
		_, err = t.exec("UPDATE approvals SET kept = ? WHERE tenant = ? AND id = ?", blob(kept), string(tenant), id)
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
func (db *DB) DropApprovals(ctx context.Context, before time.Time) error {
	for more := true; more; {
		err := db.write(ctx, "forget approvals", func(t tx) error {
			n, err := t.exec(`DELETE FROM approvals WHERE rowid IN (SELECT number FROM (
				SELECT number, row_number() OVER line AS place, sum(coalesce(length(sealed), 0)) OVER line AS bytes FROM (
					SELECT rowid AS number, tenant, id FROM approvals
					WHERE state IN `+closed+` AND max(created, decided, ended, expires) < ? ORDER BY rowid LIMIT ?) AS old
				LEFT JOIN held ON held.tenant = old.tenant AND held.approval = old.id
				WINDOW line AS (ORDER BY number)) WHERE place = 1 OR bytes <= ?)`, micros(before), dropsOnce, dropBytes)
			if more = n > 0; err != nil || n == 0 {
				return err
			}
			_, err = t.exec(`DELETE FROM votes WHERE NOT EXISTS
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
func (db *DB) Beat(ctx context.Context, tenant runtime.Tenant, who string, until time.Time) error {
	_, err := db.changed(ctx, "note a watcher", `INSERT INTO watchers (tenant, who, until) VALUES (?, ?, ?)
		ON CONFLICT (tenant, who) DO UPDATE SET until = excluded.until`, string(tenant), who, micros(until))
	return err
}

// Watched implements [approval.Store].
func (db *DB) Watched(ctx context.Context, tenant runtime.Tenant, now time.Time) (bool, error) {
	watched := false
	_, err := db.get(ctx, "look for watchers", "SELECT EXISTS (SELECT 1 FROM watchers WHERE tenant = ? AND until > ?)",
		[]any{string(tenant), micros(now)}, &watched)
	return watched, err
}
