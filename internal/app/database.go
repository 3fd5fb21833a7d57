package app

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/store/sqlite"
)

// Database is how the home's database stands.
type Database = sqlite.Inspection

// Migrated is what MigrateDatabase did: nothing when both versions are the same.
type Migrated struct {
	Path string `json:"path"`
	From int    `json:"from_version"`
	To   int    `json:"to_version"`
}

// The three work on a home that is not open, so that a database which no
// command can open may still be looked at and copied.

// InspectDatabase reads the home's database and changes nothing.
func (a *App) InspectDatabase(ctx context.Context) (Database, error) {
	path, err := a.databaseFile()
	if err != nil {
		return Database{}, err
	}
	found, err := sqlite.Inspect(ctx, path)
	return found, a.hindered(err)
}

// MigrateDatabase brings the home's database to the schema of this program.
func (a *App) MigrateDatabase(ctx context.Context) (Migrated, error) {
	before, err := a.InspectDatabase(ctx)
	if err != nil {
		return Migrated{}, err
	}
	db, err := sqlite.Open(ctx, sqlite.Options{Path: before.Path})
	if err != nil {
		return Migrated{}, a.hindered(err)
	}
	return Migrated{Path: before.Path, From: before.Version, To: before.Newest}, db.Close()
}

// CopyDatabase writes a consistent copy to a file that must not be there yet,
// and returns how the copy stands.
func (a *App) CopyDatabase(ctx context.Context, to string) (Database, error) {
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
	if a.config.Current().Store.DSN != "" {
		return "", errors.New("store.dsn: this version keeps its data in the home only")
	}
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
