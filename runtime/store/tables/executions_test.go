package tables_test

import (
	"context"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

// again runs a transaction that was undone once more, as a database does that saw a deadlock.
// Only the first time is there a row to change.
type again struct{ tables.Engine }

func (again) Write(_ context.Context, _ string, change func(tables.Tx) error) error {
	for _, rows := range []int64{1, 0} {
		if err := change(tables.Tx{Transaction: changing{rows: rows}}); err != nil {
			return err
		}
	}
	return nil
}

// changing is a transaction in which every statement changes so many rows.
type changing struct {
	tables.Transaction
	rows int64
}

func (c changing) Turn(string) error                                       { return nil }
func (c changing) Exec(string, ...any) (int64, error)                      { return c.rows, nil }
func (c changing) Query(string, []any, func(tables.Row) error) (err error) { return nil }

func TestAnExecutionCountsAsWrittenByTheLastRunOfItsTransaction(t *testing.T) {
	written, err := tables.New(again{}).WriteExecution(t.Context(), journal.Execution{ID: "exe_1"}, nil)
	if err != nil || written {
		t.Errorf("written: %v, %v", written, err)
	}
}
