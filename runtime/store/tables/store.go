package tables

import (
	"context"

	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/identity"
	"github.com/kimbap-run/kimbap/runtime/limit"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// Engine runs statements on a database, for many callers at once. Their parameters
// are ? in the order of the arguments, or ?1, ?2 and so on. What doing says is for the
// person who reads of an error.
type Engine interface {
	// Query gives each row that is selected to scan, and ends at its first error.
	Query(ctx context.Context, doing, text string, args []any, scan func(Row) error) error
	// Exec runs one statement as a transaction of its own and returns how many rows it
	// changed. After an error nobody may take it for done, nor for not done.
	Exec(ctx context.Context, doing, text string, args []any) (int64, error)
	// Write runs change in one transaction, which an error or a panic of change undoes.
	Write(ctx context.Context, doing string, change func(Tx) error) error
	// Dialect is how this database says what SQL leaves open.
	Dialect() Dialect
}

// Transaction runs statements within one, for the goroutine that has it.
type Transaction interface {
	Query(text string, args []any, scan func(Row) error) error
	Exec(text string, args ...any) (int64, error)
	// Alone keeps every other writer from these tables until the transaction ends, where
	// the database lets more than one write. It comes before the first statement, and after
	// a turn.
	Alone(tables ...string) error
	// Turn is Alone for the transactions that take a turn by the same key.
	Turn(key string) error
}

// Tx is a running transaction.
type Tx struct{ Transaction }

// Row is a row of a result. What is scanned from it may be kept.
type Row interface{ Scan(into ...any) error }

// Dialect is what the databases say each in its own words.
type Dialect struct {
	Members string // selects the members of a JSON array of strings, which is its one parameter
	// BucketOf is the condition that a limit's bucket, RULE NUL TENANT NUL …, is of the
	// tenant that is its one parameter, ?1.
	BucketOf string
}

// Store keeps everything but the index of a trail, which is an [Index]. It is safe for concurrent use, also by several processes on
// one database.
type Store struct{ engine Engine }

var (
	_ vault.Store    = (*Store)(nil)
	_ identity.Store = (*Store)(nil)
	_ approval.Store = (*Store)(nil)
	_ limit.Store    = (*Store)(nil)
	_ journal.Store  = (*Store)(nil)
)

// New returns the store on a database.
func New(engine Engine) *Store { return &Store{engine} }

// write runs change in one transaction. A caller who leaves is noticed before it, not
// within it: it is short, and ends whole.
func (s *Store) write(ctx context.Context, doing string, change func(Tx) error) error {
	return s.engine.Write(ctx, doing, change)
}

// changed runs one statement and reports whether it changed a row.
func (s *Store) changed(ctx context.Context, doing, text string, args ...any) (bool, error) {
	n, err := s.engine.Exec(ctx, doing, text, args)
	return err == nil && n > 0, err
}

// get reads the row that there is at most; false when there is none.
func (s *Store) get(ctx context.Context, doing, text string, args []any, into ...any) (found bool, err error) {
	err = s.engine.Query(ctx, doing, text, args, func(row Row) error {
		found = true
		return row.Scan(into...)
	})
	return found && err == nil, err
}

// get reads the row that there is at most; false when there is none.
func (t Tx) get(text string, args []any, into ...any) (found bool, err error) {
	err = t.Query(text, args, func(row Row) error {
		found = true
		return row.Scan(into...)
	})
	return found && err == nil, err
}

// collect reads all rows of a query.
func collect[T any](ctx context.Context, s *Store, doing, text string, args []any, scan func(Row) (T, error)) ([]T, error) {
	var list []T
	err := s.engine.Query(ctx, doing, text, args, func(row Row) error {
		item, err := scan(row)
		if err == nil {
			list = append(list, item)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// ids reads a column of text within a transaction.
func (t Tx) ids(text string, args ...any) ([]string, error) {
	out := []string{}
	err := t.Query(text, args, func(row Row) error {
		var id string
		err := row.Scan(&id)
		out = append(out, id)
		return err
	})
	return out, err
}
