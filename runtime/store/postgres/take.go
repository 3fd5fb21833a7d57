package postgres

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

// Take makes the tables of a database and puts rows into them, all or none. A database
// that is in use already is refused.
func Take(ctx context.Context, o Options, from tables.Rows) (name string, err error) {
	o.Create = true
	db, err := Open(ctx, o)
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }()
	long, cancel := context.WithTimeout(ctx, migrating)
	defer cancel()
	err = db.transact(long, func(t tx) error {
		if _, err := t.Exec("SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
			return err
		}
		into := tables.Tx{Transaction: t}
		if err := into.Alone("vault", "secrets", "tokens"); err != nil {
			return err
		}
		switch used, err := into.Used(); {
		case err != nil:
			return err
		case used:
			return db.same(into, from)
		}
		return from(into.Put)
	})
	return db.name, db.fault(ctx, "move the store", err)
}

// same refuses a database that is in use, unless it has these rows already: a move may
// have been cut short before they were removed where they were. It refuses then too when
// something happened to them where they were since.
func (db *DB) same(into tables.Tx, from tables.Rows) error {
	var stored []byte
	err := into.Query("SELECT check_value FROM vault", nil, func(r tables.Row) error { return r.Scan(&stored) })
	if err != nil {
		return err
	}
	made := int64(0)
	err = into.Query("SELECT CAST(extract(epoch FROM min(at)) * 1000000 AS BIGINT) FROM schema_version", nil, func(r tables.Row) error { return r.Scan(&made) })
	if err != nil {
		return err
	}
	same := false
	err = from(func(table string, columns []string, values []any) error {
		if at := slices.Index(columns, "check_value"); at >= 0 {
			value, _ := values[at].([]byte)
			same = len(value) > 0 && bytes.Equal(value, stored)
		}
		if !same {
			return nil
		}
		return db.unchanged(into, made, table, columns, values)
	})
	if err != nil || same {
		return err
	}
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: "the database " + db.name + " is in use by another home, and what two homes have cannot be put together",
		Hint: "name an empty database in store.dsn; a home that is to share this one is made anew: kimbap init", Err: errors.New("tables are not empty"),
	}
}

// The columns that tell rows apart, and those that tell when something happened to one.
var (
	names   = []string{"tenant", "id", "name", "who", "approval", "hash", "version"}
	moments = []string{"created", "decided", "ended", "revoked", "set_at", "given", "locked"}
)

// apart is how far the clocks of a home and of its database may be apart.
const apart = time.Hour

// unchanged refuses a row to which something happened after the tables were made, and of
// which they do not have that.
func (db *DB) unchanged(into tables.Tx, made int64, table string, columns []string, values []any) error {
	var conditions []string
	var args []any
	newer := false
	for i, column := range columns {
		moment := slices.Contains(moments, column)
		if moment {
			at, _ := values[i].(int64)
			newer = newer || at > made-apart.Microseconds()
		}
		if moment || slices.Contains(names, column) {
			conditions, args = append(conditions, column+" = ?"), append(args, values[i])
		}
	}
	if !newer {
		return nil
	}
	has := false
	err := into.Query("SELECT EXISTS (SELECT 1 FROM "+table+" WHERE "+strings.Join(conditions, " AND ")+")", args, func(r tables.Row) error { return r.Scan(&has) })
	if err != nil || has {
		return err
	}
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: "the database " + db.name + " has what was in this home once, and this home went on in its file since (" + table + ")",
		Hint: "name an empty database in store.dsn to keep what is in the file; to give it up, move kimbap.db away", Err: errors.New("rows differ"),
	}
}
