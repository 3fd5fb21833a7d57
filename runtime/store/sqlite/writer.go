package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/kimbap-run/kimbap/runtime/store/tables"
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

var _ tables.Transaction = tx{}

// Alone implements [tables.Transaction]: one connection writes at a time.
func (t tx) Alone(...string) error { return nil }

// Turn implements [tables.Transaction].
func (t tx) Turn(string) error { return nil }

// Exec implements [tables.Transaction].
func (t tx) Exec(text string, args ...any) (int64, error) {
	s, err := t.stmt(text)
	if err != nil {
		return 0, err
	}
	result, err := s.ExecContext(t.ctx, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Query implements [tables.Transaction].
func (t tx) Query(text string, args []any, scan func(tables.Row) error) error {
	s, err := t.stmt(text)
	if err != nil {
		return err
	}
	return each(t.ctx, s, args, scan)
}

func (t tx) stmt(text string) (*sql.Stmt, error) {
	t.w.told(text)
	if s := t.w.stmts[text]; s != nil {
		return s, nil
	}
	s, err := t.w.conn.PrepareContext(t.ctx, text)
	if err == nil {
		t.w.stmts[text] = s
	}
	return s, err
}

// script runs several statements, as migrations need.
func (t tx) script(text string) error {
	_, err := t.w.conn.ExecContext(t.ctx, text)
	return err
}

// each gives every row of a statement to scan.
func each(ctx context.Context, s *sql.Stmt, args []any, scan func(tables.Row) error) error {
	rows, err := s.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
