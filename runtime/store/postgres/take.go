package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

// Take makes the tables of a database and puts rows into them, all or none. A database
// that is in use already is refused.
func Take(ctx context.Context, o Options, from tables.Rows) (name string, err error) {
	if o.Create = true; o.Clock == nil {
		o.Clock = time.Now
	}
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
			return db.same(into, from, o.Clock)
		}
		return from(into.Put)
	})
	return db.name, db.fault(ctx, "move the store", err)
}

// same refuses a database that is in use, unless it has these rows already: a move may
// have been cut short before they were removed where they were. It refuses then too when
// something happened to them where they were since.
func (db *DB) same(into tables.Tx, from tables.Rows, clock func() time.Time) error {
	var stored []byte
	err := into.Query("SELECT check_value FROM vault", nil, func(r tables.Row) error { return r.Scan(&stored) })
	if err != nil {
		return err
	}
	c := comparison{into: into, database: db.name, has: map[[3]string]bool{}}
	const times = "SELECT CAST(extract(epoch FROM min(at)) * 1000000 AS BIGINT), CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT) FROM schema_version"
	var now int64
	err = into.Query(times, nil, func(r tables.Row) error { return r.Scan(&c.made, &now) })
	if err != nil {
		return err
	}
	c.made += clock().UnixMicro() - now // the rows have the times of the home
	same := false
	err = from(func(table string, columns []string, values []any) error {
		if at := slices.Index(columns, "check_value"); at >= 0 {
			value, _ := values[at].([]byte)
			same = len(value) > 0 && bytes.Equal(value, stored)
		}
		if !same {
			return nil
		}
		return c.unchanged(table, columns, values)
	})
	if err == nil && same {
		err = c.nothingLess()
	}
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

// lasting are the rows that stay until a person removes them: the two columns that name one, when
// it was made, and which do not last.
var lasting = []struct{ table, whose, name, made, but string }{
	{"secrets", "tenant", "name", "created", ""},
	{"pins", "tenant", "who", "set_at", ""},
	{"tokens", "tenant", "id", "created", " AND (expires = 0 OR expires > extract(epoch FROM now()) * 1000000)"},
	{"tenant_keys", "tenant", "version", "created", ""},
}

// apart is how far the clock of a home may have been put right since.
const apart = time.Hour

// comparison is of the rows of a home with those that a database has of it.
type comparison struct {
	into     tables.Tx
	database string
	made     int64              // when the tables there were, by the clock of the home
	has      map[[3]string]bool // the lasting rows of the home: table, whose, name
}

// unchanged refuses a row to which something happened after the tables were made, and of
// which they do not have that.
func (c *comparison) unchanged(table string, columns []string, values []any) error {
	value := func(column string) any {
		if i := slices.Index(columns, column); i >= 0 {
			return values[i]
		}
		return nil
	}
	for _, l := range lasting {
		if l.table == table {
			c.has[[3]string{table, fmt.Sprint(value(l.whose)), fmt.Sprint(value(l.name))}] = true
		}
	}
	if table == "tokens" { // which may be prolonged, and then there is no moment of it
		shorter, err := c.holds("FROM tokens WHERE tenant = ? AND id = ? AND expires < ?", value("tenant"), value("id"), value("expires"))
		if err != nil || shorter {
			return cmp.Or(err, c.wentOn(table))
		}
	}
	var conditions []string
	var args []any
	newer := false
	for i, column := range columns {
		moment := slices.Contains(moments, column)
		if moment {
			at, _ := values[i].(int64)
			newer = newer || at > c.made-apart.Microseconds()
		}
		if moment || slices.Contains(names, column) {
			conditions, args = append(conditions, column+" = ?"), append(args, values[i])
		}
	}
	if !newer {
		return nil
	}
	has, err := c.holds("FROM "+table+" WHERE "+strings.Join(conditions, " AND "), args...)
	if err != nil || has {
		return err
	}
	return c.wentOn(table)
}

// nothingLess refuses a home that lacks a row which the tables got with it: it was removed there
// since, and would be back.
func (c *comparison) nothingLess() error {
	for _, l := range lasting {
		var whose, name string
		lacks := false
		statement := "SELECT " + l.whose + ", CAST(" + l.name + " AS TEXT) FROM " + l.table + " WHERE " + l.made + " < ?" + l.but
		err := c.into.Query(statement, []any{c.made}, func(r tables.Row) error {
			if err := r.Scan(&whose, &name); err != nil {
				return err
			}
			lacks = lacks || !c.has[[3]string{l.table, whose, name}]
			return nil
		})
		if err != nil || lacks {
			return cmp.Or(err, c.wentOn(l.table))
		}
	}
	return nil
}

// holds reports whether there is such a row.
func (c *comparison) holds(from string, args ...any) (has bool, err error) {
	err = c.into.Query("SELECT EXISTS (SELECT 1 "+from+")", args, func(r tables.Row) error { return r.Scan(&has) })
	return has, err
}

// wentOn refuses to finish a move.
func (c *comparison) wentOn(table string) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: "the database " + c.database + " has what was in this home once, and this home went on in its file since (" + table + ")",
		Hint: "name an empty database in store.dsn to keep what is in the file; to give it up, move kimbap.db away", Err: errors.New("rows differ"),
	}
}
