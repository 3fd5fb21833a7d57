package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/internal/roster"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/store/postgres"
	"github.com/kimbap-run/kimbap/runtime/store/sqlite"
	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

// Database is how the home's database stands, and SharedDatabase one that homes share.
type (
	Database       = sqlite.Inspection
	SharedDatabase = postgres.Inspection
)

// Migrated is what MigrateDatabase did: nothing when both versions are the same.
type Migrated struct {
	Path string `json:"path"`
	From int    `json:"from_version"`
	To   int    `json:"to_version"`
}

// These work on a home that is not open, so that a database which no command can open may
// still be looked at and copied.

// Shares reports whether store.dsn names a database; the home's own has the index of the
// trail then.
func (a *App) Shares() bool { return !a.config.Current().Store.DSN.Empty() }

func (a *App) sharedOptions() postgres.Options {
	return postgres.Options{DSN: a.config.Current().Store.DSN.Reveal(), Told: a.logsStatements()}
}

// InspectShared looks at the database of store.dsn and changes nothing.
func (a *App) InspectShared(ctx context.Context) (SharedDatabase, error) {
	return postgres.Inspect(ctx, a.sharedOptions())
}

// InspectDatabase reads the home's database and changes nothing.
func (a *App) InspectDatabase(ctx context.Context) (Database, error) {
	path, err := a.databaseFile()
	if err != nil {
		return Database{}, err
	}
	found, err := sqlite.Inspect(ctx, path)
	return found, a.hindered(err)
}

// MigrateDatabase brings the database to the schema of this program, and the home's own
// too where homes share one.
func (a *App) MigrateDatabase(ctx context.Context) (Migrated, error) {
	before, err := a.InspectDatabase(ctx)
	if err != nil {
		return Migrated{}, err
	}
	db, err := sqlite.Open(ctx, sqlite.Options{Path: before.Path})
	if err != nil {
		return Migrated{}, a.hindered(err)
	}
	done := Migrated{Path: before.Path, From: before.Version, To: before.Newest}
	if err := db.Close(); err != nil || !a.Shares() {
		return done, err
	}
	shared, err := a.InspectShared(ctx)
	if err != nil {
		return Migrated{}, err
	}
	opened, err := postgres.Open(ctx, a.sharedOptions())
	if err != nil {
		return Migrated{}, err
	}
	return Migrated{Path: shared.Name, From: shared.Version, To: shared.Newest}, opened.Close()
}

// Moved is what MoveDatabase did.
type Moved struct {
	From string `json:"from"` // the home's file
	To   string `json:"to"`   // HOST:PORT/DATABASE
	Rows int    `json:"rows"`
}

// MoveDatabase moves what the home stores to the empty database of store.dsn, all of it or
// nothing, and nothing when it is there already. The index of the trail stays, and so does the master key.
func (a *App) MoveDatabase(ctx context.Context) (out Moved, err error) {
	if !a.Shares() {
		return out, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: "store.dsn names no database to move to",
			Hint: "set store.dsn in config.yaml, or KIMBAP_STORE_DSN, to postgres://USER@HOST/DATABASE",
		}
	}
	if out.From, err = a.databaseFile(); err != nil {
		return out, err
	}
	if running := a.states().Serving(roster.Any); len(running) > 0 {
		return out, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("a %s with process id %d works with what is in the home", running[0].Kind, running[0].PID),
			Hint: "end it, and try again",
		}
	}
	db, err := sqlite.Open(ctx, sqlite.Options{Path: out.From})
	if err != nil {
		return out, a.hindered(err)
	}
	if out.To, err = a.movedTo(ctx, db); err == nil && out.To == "" {
		out.Rows, err = db.MoveTo(ctx, func(rows tables.Rows) (_ string, err error) {
			out.To, err = postgres.Take(ctx, a.sharedOptions(), rows)
			return out.To, err
		})
	}
	return out, errors.Join(err, db.Close())
}

// movedTo names the database that has what the home stores, "" when the home has it.
func (a *App) movedTo(ctx context.Context, db *sqlite.DB) (name string, err error) {
	if own, err := db.CheckValue(ctx); err != nil || own != nil {
		return "", err
	}
	name, _, err = db.Elsewhere(ctx)
	return name, err
}

// CopyDatabase writes a consistent copy to a file that must not be there yet,
// and returns how the copy stands.
func (a *App) CopyDatabase(ctx context.Context, to string) (Database, error) {
	if a.Shares() {
		return Database{}, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: "what this home stores is in PostgreSQL, whose own tools copy it",
			Hint: "pg_dump --schema=kimbap --file=" + runtime.Quote(to) + " DSN",
		}
	}
	path, err := a.databaseFile()
	if err != nil {
		return Database{}, err
	}
	if to, err = filepath.Abs(to); err != nil {
		return Database{}, err
	}
	if err := sqlite.Copy(ctx, path, to); err != nil {
		place := (*fs.PathError)(nil)
		if errors.As(err, &place) || runtime.AsError(err).Code != runtime.CodeInternal {
			return Database{}, err // it is of the copy's own place
		}
		return Database{}, a.hindered(err)
	}
	return sqlite.Inspect(ctx, to)
}

func (a *App) databaseFile() (string, error) {
	if err := a.home.Check(a.o.UID); err != nil {
		return "", err
	}
	path, err := filepath.Abs(a.home.Database())
	if err != nil {
		return "", &runtime.Error{Code: runtime.CodeInternal, Msg: "the home has no path", Err: err}
	}
	return path, nil
}

// logsStatements writes what is asked of the store to a log that wants everything.
func (a *App) logsStatements() func(string) {
	if a.o.Log.GetLevel() > zerolog.TraceLevel {
		return nil
	}
	return func(statement string) { a.o.Log.Trace().Str("statement", statement).Msg("store") }
}
