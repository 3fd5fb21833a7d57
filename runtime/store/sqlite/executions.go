package sqlite

import (
	"context"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

// WriteExecution implements [journal.Store].
func (db *DB) WriteExecution(ctx context.Context, e journal.Execution, calls []journal.Call) (written bool, err error) {
	err = db.write(ctx, "keep an execution", func(t tx) error {
		n, err := t.exec(`INSERT INTO executions (id, tenant, principal, state, holder, script, result, created, expires)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
			ON CONFLICT (id) DO UPDATE SET state = excluded.state, result = excluded.result, expires = excluded.expires
			WHERE tenant = excluded.tenant AND holder = excluded.holder AND state <> 'ended'`,
			e.ID, string(e.Tenant), e.Principal, string(e.State), e.Holder, e.Script, blob(e.Result), micros(e.Created), micros(e.Expires))
		if err != nil || n == 0 {
			return err
		}
		written = true
		for _, call := range calls {
			_, err := t.exec(`INSERT INTO execution_calls (execution, step, settled, sealed) VALUES (?, ?, ?, ?)
				ON CONFLICT (execution, step) DO UPDATE SET settled = excluded.settled, sealed = excluded.sealed`,
				e.ID, call.Step, call.Settled, call.Sealed)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return written && err == nil, err
}

// Execution implements [journal.Store].
func (db *DB) Execution(ctx context.Context, tenant runtime.Tenant, id string) (e journal.Execution, found bool, err error) {
	found, err = db.get(ctx, "read an execution", `SELECT id, tenant, principal, state, holder, script, result, created, expires
		FROM executions WHERE tenant = ? AND id = ?`, []any{string(tenant), id},
		&e.ID, &e.Tenant, &e.Principal, &e.State, &e.Holder, &e.Script, &e.Result, moment{&e.Created}, moment{&e.Expires})
	return e, found, err
}

// ExecutionCalls implements [journal.Store].
func (db *DB) ExecutionCalls(ctx context.Context, tenant runtime.Tenant, id string) ([]journal.Call, error) {
	return collect(ctx, db, "read an execution's calls", `SELECT step, settled, sealed FROM execution_calls
		WHERE execution = (SELECT id FROM executions WHERE tenant = ? AND id = ?) ORDER BY step`,
		[]any{string(tenant), id}, func(row scanner) (c journal.Call, err error) {
			return c, row.Scan(&c.Step, &c.Settled, &c.Sealed)
		})
}

// ClaimExecution implements [journal.Store].
func (db *DB) ClaimExecution(ctx context.Context, tenant runtime.Tenant, id string, state journal.State, from, to string) (bool, error) {
	return db.changed(ctx, "claim an execution", `UPDATE executions SET state = 'running', holder = ?
		WHERE tenant = ? AND id = ? AND state = ? AND holder = ?`, to, string(tenant), id, string(state), from)
}

// DropExecutions implements [journal.Store].
func (db *DB) DropExecutions(ctx context.Context, now time.Time) error {
	_, err := db.changed(ctx, "forget executions", "DELETE FROM executions WHERE expires < ?", micros(now))
	return err
}
