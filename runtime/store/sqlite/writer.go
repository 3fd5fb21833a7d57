package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// writer is the one connection that writes, and the turn to use it.
type writer struct {
	turn    chan struct{}
	conn    *sql.Conn
	stmts   map[string]*sql.Stmt // by text; used by whoever has the turn
	timeout time.Duration        // busy_timeout of conn as it is now
	told    func(statement string)
}

func newWriter(conn *sql.Conn) *writer {
	w := &writer{turn: make(chan struct{}, 1), conn: conn, stmts: map[string]*sql.Stmt{}, timeout: busyWait, told: func(string) {}}
	w.turn <- struct{}{}
	return w
}

// take waits for the turn, at most until the deadline.
func (w *writer) take(ctx context.Context, deadline time.Time) error {
	select {
	case <-w.turn:
		return nil
	default:
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-w.turn:
		return nil
	case <-timer.C:
		return errTurn
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *writer) release() { w.turn <- struct{}{} }

// close waits for the running write and keeps the turn for ever.
func (w *writer) close() error {
	<-w.turn
	var errs []error
	for _, stmt := range w.stmts {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, w.conn.Close())...)
}

// patience sets how long the connection waits for other processes, so that
// both waits together end at the deadline.
func (w *writer) patience(ctx context.Context, deadline time.Time) error {
	left := min(max(time.Until(deadline).Round(100*time.Millisecond), 0), busyWait)
	if left == w.timeout {
		return nil
	}
	_, err := w.conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", left.Milliseconds()))
	if err == nil {
		w.timeout = left
	}
	return err
}

// tx is a running transaction.
type tx struct {
	w   *writer
	ctx context.Context
}

// write runs change in one transaction that holds the write lock from its
// start. An error of change rolls it back. A caller who leaves is noticed
// before the transaction, not within it: it is short, and ends whole.
func (db *DB) write(ctx context.Context, doing string, change func(t tx) error) error {
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
	if _, err := t.exec("BEGIN IMMEDIATE"); err != nil {
		return db.fault(doing, err)
	}
	done := false
	defer func() {
		if !done { // an error or a panic on its way up
			_, _ = t.exec("ROLLBACK")
		}
	}()
	if err := change(t); err != nil {
		return db.fault(doing, err)
	}
	if _, err := t.exec("COMMIT"); err != nil {
		return db.fault(doing, err)
	}
	done = true
	return nil
}

func (t tx) stmt(query string) (*sql.Stmt, error) {
	t.w.told(query)
	if s := t.w.stmts[query]; s != nil {
		return s, nil
	}
	s, err := t.w.conn.PrepareContext(t.ctx, query)
	if err == nil {
		t.w.stmts[query] = s
	}
	return s, err
}

// exec returns how many rows were changed.
func (t tx) exec(query string, args ...any) (int64, error) {
	s, err := t.stmt(query)
	if err != nil {
		return 0, err
	}
	result, err := s.ExecContext(t.ctx, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// get reads one row; false when there is none.
func (t tx) get(query string, args []any, into ...any) (bool, error) {
	s, err := t.stmt(query)
	if err != nil {
		return false, err
	}
	return one(s.QueryRowContext(t.ctx, args...), into...)
}

// script runs several statements, as migrations need.
func (t tx) script(text string) error {
	_, err := t.w.conn.ExecContext(t.ctx, text)
	return err
}

// query returns the prepared statement of a reading connection.
func (db *DB) query(ctx context.Context, text string) (*sql.Stmt, error) {
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

// get reads one row; false when there is none.
func (db *DB) get(ctx context.Context, doing, text string, args []any, into ...any) (bool, error) {
	s, err := db.query(ctx, text)
	if err != nil {
		return false, db.fault(doing, err)
	}
	found, err := one(s.QueryRowContext(ctx, args...), into...)
	return found, db.fault(doing, err)
}

// scanner is a row of a result.
type scanner interface{ Scan(into ...any) error }

func one(row scanner, into ...any) (bool, error) {
	switch err := row.Scan(into...); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	default:
		return err == nil, err
	}
}

// collect reads all rows of a query.
func collect[T any](ctx context.Context, db *DB, doing, text string, args []any, scan func(scanner) (T, error)) ([]T, error) {
	s, err := db.query(ctx, text)
	if err != nil {
		return nil, db.fault(doing, err)
	}
	rows, err := s.QueryContext(ctx, args...)
	if err != nil {
		return nil, db.fault(doing, err)
	}
	defer func() { _ = rows.Close() }()
	var list []T
	for rows.Next() {
		item, err := scan(rows)
		if err != nil {
			return nil, db.fault(doing, err)
		}
		list = append(list, item)
	}
	return list, db.fault(doing, rows.Err())
}
