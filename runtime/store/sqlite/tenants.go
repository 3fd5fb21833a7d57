package sqlite

import (
	"context"
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
	// A bucket is RULE NUL TENANT NUL …; as bytes, since text of SQL ends at a NUL.
	`DELETE FROM limits WHERE hex(substr(CAST(bucket AS BLOB), instr(CAST(bucket AS BLOB), x'00') + 1, length(CAST(?1 AS BLOB)) + 1))
		= hex(?1) || '00'`,
}

// DropTenant removes all that is kept of a tenant, its keys included, in one
// transaction, and overwrites it in the file. Before that it tells may, within the
// transaction, the ids of the tokens that are valid at that time and of the
// approvals that nobody has decided, and how many credentials there are; an error
// of may changes nothing.
func (db *DB) DropTenant(ctx context.Context, tenant runtime.Tenant, now time.Time, may func(tokens, pending []string, credentials int) error) error {
	err := db.write(ctx, "remove a tenant", func(t tx) error {
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
		for _, statement := range ofTenant {
			if _, err := t.exec(statement, string(tenant)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return db.emptyLog(ctx)
}

// emptyLog brings the write-ahead log into the file, where what was removed is
// overwritten, and cuts it: it may hold the pages as they were before. Readers that
// are in its way keep it for a while, which is no error: the next checkpoint that
// finds none overwrites it from the start.
func (db *DB) emptyLog(ctx context.Context) error {
	deadline := time.Now().Add(busyWait)
	if err := db.writer.take(ctx, deadline); err != nil {
		return db.fault("empty the log", err)
	}
	defer db.writer.release()
	var busy, pages, moved int
	err := db.writer.conn.QueryRowContext(context.WithoutCancel(ctx), "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved)
	return db.fault("empty the log", err)
}

// ids reads a column of text within a transaction.
func (t tx) ids(query string, args ...any) ([]string, error) {
	s, err := t.stmt(query)
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(t.ctx, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	out := []string{}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, rows.Err()
}

// KeepsOf reports whether anything is kept of a tenant that an operator would miss
// or that must not become another's. Who watches and what limits have been used
// are neither.
func (db *DB) KeepsOf(ctx context.Context, tenant runtime.Tenant) (bool, error) {
	keeps := false
	_, err := db.get(ctx, "look for a tenant", `SELECT EXISTS (SELECT 1 FROM secrets WHERE tenant = ?1)
		OR EXISTS (SELECT 1 FROM tenant_keys WHERE tenant = ?1) OR EXISTS (SELECT 1 FROM tokens WHERE tenant = ?1)
		OR EXISTS (SELECT 1 FROM approvals WHERE tenant = ?1) OR EXISTS (SELECT 1 FROM grants WHERE tenant = ?1)
		OR EXISTS (SELECT 1 FROM pins WHERE tenant = ?1) OR EXISTS (SELECT 1 FROM executions WHERE tenant = ?1)`,
		[]any{string(tenant)}, &keeps)
	return keeps, err
}
