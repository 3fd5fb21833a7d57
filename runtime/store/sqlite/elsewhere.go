package sqlite

import (
	"context"
	"crypto/rand"

	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

// A home may keep what it stores in a database that it shares with others. Its own file
// has the index of its trail then, and says so: else a home whose configuration names that
// database no more would pass for one whose vault was never used.

// Elsewhere names the database that has everything else, "" when this file has it, and this
// home among those that share it: a name that no other one has or gets.
func (db *DB) Elsewhere(ctx context.Context) (name, home string, err error) {
	err = db.query(ctx, "look where the store is", "SELECT name, home FROM elsewhere", nil, func(row tables.Row) error { return row.Scan(&name, &home) })
	return name, home, err
}

// SetElsewhere says that everything else is in that database.
func (db *DB) SetElsewhere(ctx context.Context, name string) error {
	return db.write(ctx, "say where the store is", func(t tx) error { return t.elsewhere(name) })
}

func (t tx) elsewhere(name string) error {
	_, err := t.Exec("INSERT INTO elsewhere (id, name, home) VALUES (1, ?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name", name, "home_"+rand.Text())
	return err
}

// wasMoved is what SQLite says to who writes to a table that was moved.
const wasMoved = "kimbap: the store was moved"

// keepEmpty lets nobody write to what was moved: a process that opened the file before
// would write where nobody looks any more.
func (t tx) keepEmpty() error {
	for _, table := range tables.Moved() {
		_, err := t.Exec("CREATE TRIGGER IF NOT EXISTS " + table + "_moved BEFORE INSERT ON " + table +
			" BEGIN SELECT RAISE(ABORT, '" + wasMoved + "'); END")
		if err != nil {
			return err
		}
	}
	return nil
}

// MoveTo gives everything but the index of the trail to take, which keeps it in the
// database whose name it returns, and has it no more when take has no error. Nobody writes
// here meanwhile. It returns how many rows that were.
func (db *DB) MoveTo(ctx context.Context, take func(rows tables.Rows) (name string, err error)) (moved int, err error) {
	err = db.write(ctx, "move the store", func(t tx) error {
		from := tables.Tx{Transaction: t}
		name, err := take(from.Everything)
		if err != nil {
			return err
		}
		if moved, err = from.Empty(); err != nil {
			return err
		}
		if err := t.keepEmpty(); err != nil {
			return err
		}
		return t.elsewhere(name)
	})
	if err != nil {
		return 0, err
	}
	return moved, db.emptyLog(ctx)
}
