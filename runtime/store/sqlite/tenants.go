package sqlite

import (
	"context"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// DropTenant is that of the tables, and overwrites in the file what was removed.
func (db *DB) DropTenant(ctx context.Context, tenant runtime.Tenant, now time.Time, may func(tokens, pending []string, credentials int) error) error {
	if err := db.Store.DropTenant(ctx, tenant, now, may); err != nil {
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
