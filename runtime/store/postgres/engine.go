package postgres

import (
	"context"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

// engine runs the statements of the tables on the database.
type engine struct{ db *DB }

var _ tables.Engine = engine{}

// Dialect implements [tables.Engine].
func (engine) Dialect() tables.Dialect {
	return tables.Dialect{
		Members:  "SELECT jsonb_array_elements_text(CAST(CAST(? AS TEXT) AS JSONB))",
		BucketOf: "split_part(bucket, '" + escaped("\x00") + "', 2) = ?1",
	}
}

// Query implements [tables.Engine]. A connection that was found broken before anything
// was sent is tried once more: behind a failover all that are kept are.
func (e engine) Query(ctx context.Context, doing, text string, args []any, scan func(tables.Row) error) error {
	return e.db.query(ctx, doing, text, args, scan)
}

// Exec implements [tables.Engine].
func (e engine) Exec(ctx context.Context, doing, text string, args []any) (n int64, err error) {
	err = e.db.within(ctx, doing, func(ctx context.Context) error {
		e.db.told(text)
		var tag pgconn.CommandTag
		tag, err := e.db.pool.Exec(ctx, numbered(text), arguments(args)...)
		n = tag.RowsAffected()
		return err
	})
	return n, err
}

// Write implements [tables.Engine]. What is read within it is what is stored when it is
// read (READ COMMITTED), so a change that depends on it takes its turn first.
func (e engine) Write(ctx context.Context, doing string, change func(tables.Tx) error) error {
	return e.db.within(ctx, doing, func(ctx context.Context) error {
		return e.db.transact(ctx, func(t tx) error { return change(tables.Tx{Transaction: t}) })
	})
}

// tx is a running transaction.
type tx struct {
	db  *DB
	tx  pgx.Tx
	ctx context.Context
}

var _ tables.Transaction = tx{}

// Query implements [tables.Transaction].
func (t tx) Query(text string, args []any, scan func(tables.Row) error) error {
	t.db.told(text)
	rows, err := t.tx.Query(t.ctx, numbered(text), arguments(args)...)
	if err != nil {
		return err
	}
	return each(rows, scan)
}

// Exec implements [tables.Transaction].
func (t tx) Exec(text string, args ...any) (int64, error) {
	t.db.told(text)
	tag, err := t.tx.Exec(t.ctx, numbered(text), arguments(args)...)
	return tag.RowsAffected(), err
}

// Alone implements [tables.Transaction]. Readers go on.
func (t tx) Alone(names ...string) error {
	_, err := t.Exec("LOCK TABLE " + strings.Join(names, ", ") + " IN SHARE ROW EXCLUSIVE MODE")
	return err
}

// Turn implements [tables.Transaction]. Keys that share a hash take turns too.
func (t tx) Turn(key string) error {
	_, err := t.Exec("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", key)
	return err
}

// each gives every row to scan.
func each(rows pgx.Rows, scan func(tables.Row) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(row{rows}); err != nil {
			return err
		}
	}
	return rows.Err()
}

// numbered writes the parameters of a statement as PostgreSQL has them: $1 for ?1, and
// for each ? the next one. No statement has a question mark in a text.
func numbered(text string) string {
	var out strings.Builder
	next := 1
	for {
		before, rest, found := strings.Cut(text, "?")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteByte('$')
		if rest == "" || rest[0] < '0' || rest[0] > '9' {
			out.WriteString(strconv.Itoa(next))
			next++
		}
		text = rest
	}
}
