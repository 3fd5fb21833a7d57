package sqlite

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

// engine runs the statements of the tables on the file.
type engine struct{ db *DB }

var _ tables.Engine = engine{}

// Dialect implements [tables.Engine].
func (engine) Dialect() tables.Dialect {
	return tables.Dialect{
		Members: "SELECT value FROM json_each(?)",
		// As bytes, since a text of SQLite ends at a NUL.
		BucketOf: `hex(substr(CAST(bucket AS BLOB), instr(CAST(bucket AS BLOB), x'00') + 1, length(CAST(?1 AS BLOB)) + 1)) = hex(?1) || '00'`,
	}
}

// search is how an index is asked.
var search = tables.Search{
	Contains: "instr(line, ?) > 0",
	Glob: func(column string, g runtime.Glob) (condition, pattern string) {
		return column + " GLOB ?", globs.Replace(string(g))
	},
}

// globs writes our glob in SQLite's words, where "?" and "[" are special too.
var globs = strings.NewReplacer("?", "[?]", "[", "[[]")

// Write implements [tables.Engine]. The transaction holds the write lock from its start.
func (e engine) Write(ctx context.Context, doing string, change func(tables.Tx) error) error {
	return e.db.write(ctx, doing, func(t tx) error { return change(tables.Tx{Transaction: t}) })
}

// Exec implements [tables.Engine].
func (e engine) Exec(ctx context.Context, doing, text string, args []any) (n int64, err error) {
	err = e.db.write(ctx, doing, func(t tx) (err error) {
		n, err = t.Exec(text, args...)
		return err
	})
	return n, err
}

// Query implements [tables.Engine].
func (e engine) Query(ctx context.Context, doing, text string, args []any, scan func(tables.Row) error) error {
	return e.db.query(ctx, doing, text, args, scan)
}

// write runs change in one transaction that holds the write lock from its
// start. An error of change rolls it back. A caller who leaves is noticed
// before the transaction, not within it: it is short, and ends whole.
func (db *DB) write(ctx context.Context, doing string, change func(t tx) error) error {
	if err := db.astray(); err != nil {
		return err
	}
	deadline := time.Now().Add(busyWait)
	if err := db.writer.take(ctx, deadline); err != nil {
		return db.fault(doing, err)
	}
	defer db.writer.release()
	if err := ctx.Err(); err != nil {
		return db.fault(doing, err)
	}
	t := tx{w: db.writer, ctx: context.WithoutCancel(ctx)}
	if err := db.writer.patience(t.ctx, deadline); err != nil {
		return db.fault(doing, err)
	}
	if _, err := t.Exec("BEGIN IMMEDIATE"); err != nil {
		return db.fault(doing, err)
	}
	done := false
	defer func() {
		if !done { // an error or a panic on its way up
			_, _ = t.Exec("ROLLBACK")
		}
	}()
	if err := change(t); err != nil {
		return db.fault(doing, err)
	}
	if _, err := t.Exec("COMMIT"); err != nil {
		return db.fault(doing, err)
	}
	done = true
	return nil
}

// query gives the rows that a reading connection finds to scan.
func (db *DB) query(ctx context.Context, doing, text string, args []any, scan func(tables.Row) error) error {
	if err := db.astray(); err != nil {
		return err
	}
	s, err := db.prepared(ctx, text)
	if err != nil {
		return db.fault(doing, err)
	}
	return db.fault(doing, each(ctx, s, args, scan))
}

// prepared returns the statement of a reading connection.
func (db *DB) prepared(ctx context.Context, text string) (*sql.Stmt, error) {
	db.told(text)
	if s, ok := db.queries.Load(text); ok {
		return s.(*sql.Stmt), nil
	}
	s, err := db.reader.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	if other, loaded := db.queries.LoadOrStore(text, s); loaded {
		_ = s.Close()
		return other.(*sql.Stmt), nil
	}
	return s, nil
}

// pragma reads one number that SQLite says of the file.
func (db *DB) pragma(ctx context.Context, name string, into any) error {
	return db.query(ctx, "open", "PRAGMA "+name, nil, func(row tables.Row) error { return row.Scan(into) })
}
