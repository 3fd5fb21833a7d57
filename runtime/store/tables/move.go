package tables

import (
	"fmt"
	"strings"
)

// Rows gives rows of tables to put, each table's after those that they refer to. Values are
// int64, string, []byte or nil, in the order of the columns.
type Rows func(put func(table string, columns []string, values []any) error) error

// moved are the tables that are moved from one database to another, those first that
// others refer to. Who watches now, and what the database counts itself, are not.
var moved = []struct{ name, columns string }{
	{"vault", "id, check_value, locked, locked_by, locked_until"},
	{"tenant_keys", "tenant, version, wrapped, created"},
	{"secrets", secretColumns},
	{"tokens", tokenColumns},
	{"approvals", rowColumns + ", proof, kept"},
	{"held", "tenant, approval, sealed"},
	{"votes", "tenant, approval, who, proof, given"},
	{"grants", "tenant, id, scope, sealed, expires, revoked"},
	{"pins", "tenant, who, sealed, set_at, tries, until"},
	{"limits", "bucket, full_at"},
	{"executions", "id, tenant, principal, state, holder, script, result, created, expires, bytes"},
	{"execution_calls", "execution, step, settled, sealed"},
}

// Moved are the names of the tables that are moved.
func Moved() []string {
	names := make([]string, len(moved))
	for i := range moved {
		names[i] = moved[i].name
	}
	return names
}

// Everything gives all that is moved. It is a [Rows].
func (t Tx) Everything(put func(table string, columns []string, values []any) error) error {
	for _, table := range moved {
		columns := strings.Fields(strings.ReplaceAll(table.columns, ",", " "))
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range into {
			into[i] = &values[i]
		}
		err := t.Query("SELECT "+table.columns+" FROM "+table.name, nil, func(row Row) error {
			if err := row.Scan(into...); err != nil {
				return err
			}
			return put(table.name, columns, values)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", table.name, err)
		}
	}
	return nil
}

// Put inserts a row that [Tx.Everything] of another database has given.
func (t Tx) Put(table string, columns []string, values []any) error {
	_, err := t.Exec("INSERT INTO "+table+" ("+strings.Join(columns, ", ")+") VALUES (?"+strings.Repeat(", ?", len(columns)-1)+")", values...)
	return err
}

// Used reports whether there is anything of what is moved.
func (t Tx) Used() (bool, error) {
	for _, table := range moved {
		used := false
		if _, err := t.get("SELECT EXISTS (SELECT 1 FROM "+table.name+")", nil, &used); err != nil || used {
			return used, err
		}
	}
	return false, nil
}

// Empty removes all that is moved, and returns how many rows that were.
func (t Tx) Empty() (rows int, err error) {
	for i := len(moved) - 1; i >= 0; i-- {
		n, err := t.Exec("DELETE FROM " + moved[i].name)
		if err != nil {
			return 0, err
		}
		rows += int(n)
	}
	return rows, nil
}
