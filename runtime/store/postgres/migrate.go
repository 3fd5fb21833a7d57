package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

// The migrations, 0001.sql first. One is never changed after a release.
//
//go:embed schema/*.sql
var schema embed.FS

// migrating is how long bringing the tables up to date may take.
const migrating = 5 * time.Minute

// migrations returns the texts in order; number n is at n-1.
func migrations() ([]string, error) {
	names, err := fs.Glob(schema, "schema/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(names))
	for i, name := range names {
		text, err := schema.ReadFile(name)
		if err != nil {
			return nil, err
		}
		texts[i] = string(text)
	}
	return texts, nil
}

// prepare checks the tables, and makes them or brings them up to date.
func (db *DB) prepare(ctx context.Context, create bool) error {
	texts, err := migrations()
	if err != nil {
		return err
	}
	version, err := db.version(ctx)
	if err == nil {
		err = db.known(version, len(texts), create)
	}
	if err != nil || version == len(texts) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), migrating)
	defer cancel()
	err = db.transact(ctx, func(t tx) error { return t.migrate(texts, create) })
	return db.fault(context.WithoutCancel(ctx), "migrate", err)
}

// known refuses tables that we did not make or do not know.
func (db *DB) known(version, newest int, create bool) error {
	switch {
	case version == 0 && !create:
		return &runtime.Error{
			Code: runtime.CodeInternal, Reason: runtime.ReasonNotFound, Msg: "the database " + db.name + " has no tables of kimbap",
			Hint: "check store.dsn; to move what the home has there: kimbap db move",
		}
	case version > newest:
		return &runtime.Error{
			Code: runtime.CodeInternal, Reason: runtime.ReasonStorageUnavailable,
			Msg:  fmt.Sprintf("the database %s has schema version %d and this kimbap knows versions up to %d", db.name, version, newest),
			Hint: "use the newer kimbap that wrote it",
		}
	}
	return nil
}

// version is that of the tables, 0 where there are none.
func (db *DB) version(ctx context.Context) (version int, err error) {
	there := false
	err = db.query(ctx, "open", "SELECT to_regclass('schema_version') IS NOT NULL", nil, func(r tables.Row) error { return r.Scan(&there) })
	if err != nil || !there {
		return 0, err
	}
	err = db.query(ctx, "open", "SELECT coalesce(max(version), 0) FROM schema_version", nil, func(r tables.Row) error { return r.Scan(&version) })
	return version, err
}

// migrate applies the migrations above what there is when it has its turn: another
// process may have been faster.
func (t tx) migrate(texts []string, create bool) error {
	if _, err := t.Exec("SET LOCAL statement_timeout = 0"); err != nil {
		return err
	}
	if err := t.Turn("kimbap schema"); err != nil {
		return err
	}
	if create {
		if err := t.begin(); err != nil {
			return err
		}
	}
	version := 0
	err := t.Query("SELECT coalesce(max(version), 0) FROM schema_version", nil, func(r tables.Row) error { return r.Scan(&version) })
	if err != nil {
		return err
	}
	for i := version; i < len(texts); i++ {
		if _, err := t.tx.Conn().PgConn().Exec(t.ctx, texts[i]).ReadAll(); err != nil {
			return fmt.Errorf("migration %d: %w", i+1, err)
		}
		if _, err := t.Exec("INSERT INTO schema_version (version) VALUES (?)", i+1); err != nil {
			return err
		}
	}
	return nil
}

// begin makes the schema and the table of its version. Whoever may not make a schema may
// have been given one.
func (t tx) begin() error {
	schema, encoding := "", ""
	err := t.Query("SELECT coalesce(current_schema(), ''), getdatabaseencoding()", nil, func(r tables.Row) error { return r.Scan(&schema, &encoding) })
	switch {
	case err != nil:
		return err
	case encoding != "UTF8":
		return &runtime.Error{
			Code: runtime.CodeInternal, Reason: runtime.ReasonStorageUnavailable, Msg: "the database is refused: its encoding is " + encoding + ", which does not hold every text",
			Hint: "make it anew: createdb --encoding=UTF8 --template=template0",
		}
	case schema == "":
		_, err = t.Exec("CREATE SCHEMA " + home)
	case schema != home && t.tx.Conn().Config().RuntimeParams["search_path"] == home:
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: "the database " + t.db.name + " does not take the schema that it is asked for, as behind a pooler that drops that: the tables would be made in " + schema,
			Hint: "say it for the user of store.dsn: ALTER ROLE … SET search_path = " + home,
		}
	}
	if err == nil {
		_, err = t.Exec("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT PRIMARY KEY, at TIMESTAMPTZ NOT NULL DEFAULT now())")
	}
	return err
}
