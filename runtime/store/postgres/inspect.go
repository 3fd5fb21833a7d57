package postgres

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

// Inspection is how a database stands.
type Inspection struct {
	Name    string `json:"database"`              // HOST:PORT/DATABASE
	Server  string `json:"server_version"`        // as the server says it
	TLS     string `json:"tls"`                   // protocol version; "": the connection is in clear
	Size    int64  `json:"size_bytes"`            // of the tables, what others keep in the database left out
	Version int    `json:"schema_version"`        // of the tables; 0: there are none
	Newest  int    `json:"newest_schema_version"` // that this program knows
}

// Inspect looks at a database and changes nothing.
func Inspect(ctx context.Context, o Options) (Inspection, error) {
	db, err := connect(ctx, o)
	if err != nil {
		return Inspection{}, err
	}
	defer func() { _ = db.Close() }()
	texts, err := migrations()
	if err != nil {
		return Inspection{}, err
	}
	out := Inspection{Name: db.name, Newest: len(texts)}
	err = db.query(ctx, "look at the database", `SELECT current_setting('server_version'),
		coalesce((SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()), ''),
		(SELECT CAST(coalesce(sum(pg_total_relation_size(oid)), 0) AS BIGINT) FROM pg_class
			WHERE relkind = 'r' AND relnamespace = to_regnamespace(current_schema()))`, nil,
		func(r tables.Row) error { return r.Scan(&out.Server, &out.TLS, &out.Size) })
	if err != nil {
		return Inspection{}, err
	}
	out.Version, err = db.version(ctx)
	return out, err
}

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
// have been cut short before they were removed where they were.
func (db *DB) same(into tables.Tx, from tables.Rows) error {
	var stored []byte
	err := into.Query("SELECT check_value FROM vault", nil, func(r tables.Row) error { return r.Scan(&stored) })
	if err != nil {
		return err
	}
	same := false
	err = from(func(table string, columns []string, values []any) error {
		if at := slices.Index(columns, "check_value"); at >= 0 {
			value, _ := values[at].([]byte)
			same = len(value) > 0 && bytes.Equal(value, stored)
		}
		return nil
	})
	if err != nil || same {
		return err
	}
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: "the database " + db.name + " is in use by another home, and what two homes have cannot be put together",
		Hint: "name an empty database in store.dsn; a home that is to share this one is made anew: kimbap init", Err: errors.New("tables are not empty"),
	}
}
