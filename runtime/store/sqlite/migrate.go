package sqlite

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

// applicationID stands in the file's header and says that it is ours ("kmb1").
const applicationID = 0x6b6d6231

// The migrations, 0001.sql first. One is never changed after a release.
//
//go:embed schema/*.sql
var schema embed.FS

// migrations returns the texts in order; number n is at n-1.
func migrations() ([]string, error) {
	names, err := fs.Glob(schema, "schema/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(names))
	for i, name := range names {
		if want := fmt.Sprintf("schema/%04d.sql", i+1); name != want {
			return nil, fmt.Errorf("migration %s is where %s should be", name, want)
		}
		text, err := schema.ReadFile(name)
		if err != nil {
			return nil, err
		}
		texts[i] = string(text)
	}
	return texts, nil
}

// create fills a new file.
func (db *DB) create(ctx context.Context) error {
	texts, err := migrations()
	if err != nil {
		return err
	}
	return db.write(ctx, "make the database", func(t tx) error {
		if err := t.script(fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
			return err
		}
		return t.migrate(texts, 0)
	})
}

// prepare checks the file and brings it up to date.
func (db *DB) prepare(ctx context.Context) error {
	texts, err := migrations()
	if err != nil {
		return err
	}
	version, err := db.version(ctx, len(texts))
	if err != nil {
		return err
	}
	if version < len(texts) {
		err := db.write(ctx, "migrate", func(t tx) error {
			// Another process may have been faster: read again under the lock.
			err := t.Query("PRAGMA user_version", nil, func(row tables.Row) error { return row.Scan(&version) })
			if err != nil {
				return err
			}
			return t.migrate(texts, version)
		})
		if err != nil {
			return err
		}
	}
	if err := db.sound(ctx); err != nil {
		return err
	}
	// The header says so already, unless another tool has changed it.
	_, err = db.writer.conn.ExecContext(ctx, "PRAGMA journal_mode = wal")
	return db.fault("open", err)
}

// version reads the schema's version and refuses a file that is not ours or is
// newer than we are.
func (db *DB) version(ctx context.Context, newest int) (int, error) {
	var id, version int
	if err := db.pragma(ctx, "application_id", &id); err != nil {
		return 0, err
	}
	if err := db.pragma(ctx, "user_version", &version); err != nil {
		return 0, err
	}
	switch {
	case id != applicationID || version < 1:
		return 0, damaged(db.path, fmt.Errorf("application id %#x, schema version %d", id, version))
	case version > newest:
		return 0, &runtime.Error{
			Code: runtime.CodeInternal, Reason: runtime.ReasonStorageUnavailable,
			Msg:  fmt.Sprintf("the database %s has schema version %d and this kimbap knows versions up to %d", db.path, version, newest),
			Hint: "use the newer kimbap that wrote it",
		}
	}
	return version, nil
}

// sound checks the tables that cannot be rebuilt. The index of the trail can, and
// is too large to be checked at every start. So are the journal of scripts and what
// approvals hold, whose rows are sealed: one that is damaged does not open, and stops
// its own script or request alone. [Inspect] checks everything.
func (db *DB) sound(ctx context.Context) error {
	for _, table := range []string{"vault", "tenant_keys", "secrets", "tokens", "approvals", "changes", "limits", "pins", "votes", "grants"} {
		var found []string
		err := db.query(ctx, "check", "PRAGMA quick_check("+table+")", nil, func(row tables.Row) error {
			var line string
			err := row.Scan(&line)
			found = append(found, line)
			return err
		})
		if err != nil {
			return err
		}
		if len(found) != 1 || found[0] != "ok" {
			return damaged(db.path, errors.New(table+": "+strings.Join(found, "; ")))
		}
	}
	return nil
}

// migrate applies the migrations above version.
func (t tx) migrate(texts []string, version int) error {
	for i := version; i < len(texts); i++ {
		if err := t.script(texts[i]); err != nil {
			return fmt.Errorf("migration %d: %w", i+1, err)
		}
		if err := t.script(fmt.Sprintf("PRAGMA user_version = %d", i+1)); err != nil {
			return err
		}
	}
	return nil
}
