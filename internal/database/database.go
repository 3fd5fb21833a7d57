// Package database works on what a home stores without opening the home: it looks, migrates,
// copies, and moves all of it to a PostgreSQL database that homes can share. So a database that
// no command can open may still be looked at and copied.
//
// It needs no key: what is sealed is copied and moved sealed. It refuses to move what
// somebody works with, and to copy over a file.
//
// Start reading at [Keeper.Inspect].
package database

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/roster"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/store/postgres"
	"github.com/kimbap-run/kimbap/runtime/store/sqlite"
	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

// Keeper keeps the database of one home. Its methods may be called while others have the home
// open.
type Keeper struct {
	Home home.Folder
	UID  int            // who the home must belong to
	DSN  runtime.Secret // store.dsn, the database that homes share: the home's own has the index of the trail then; empty: none

	Told func(statement string) // what is asked of a database; may be nil
}

// Migrated is what [Keeper.Migrate] did: nothing when both versions are the same.
type Migrated struct {
	Path string `json:"path"`
	From int    `json:"from_version"`
	To   int    `json:"to_version"`
}

// Inspect reads the home's database and changes nothing.
func (k Keeper) Inspect(ctx context.Context) (sqlite.Inspection, error) {
	path, err := k.file()
	if err != nil {
		return sqlite.Inspection{}, err
	}
	found, err := sqlite.Inspect(ctx, path)
	return found, k.Home.Hindered(err, k.UID)
}

// InspectShared looks at the database of store.dsn and changes nothing.
func (k Keeper) InspectShared(ctx context.Context) (postgres.Inspection, error) {
	return postgres.Inspect(ctx, k.shared())
}

// Migrate brings the home's database to the schema of this program, and that of store.dsn too
// where homes share one: then it is the shared one that is told of.
func (k Keeper) Migrate(ctx context.Context) (Migrated, error) {
	before, err := k.Inspect(ctx)
	if err != nil {
		return Migrated{}, err
	}
	db, err := sqlite.Open(ctx, sqlite.Options{Path: before.Path})
	if err != nil {
		return Migrated{}, k.Home.Hindered(err, k.UID)
	}
	done := Migrated{Path: before.Path, From: before.Version, To: before.Newest}
	if err := db.Close(); err != nil || k.DSN.Empty() {
		return done, err
	}
	shared, err := k.InspectShared(ctx)
	if err != nil {
		return Migrated{}, err
	}
	opened, err := postgres.Open(ctx, k.shared())
	if err != nil {
		return Migrated{}, err
	}
	return Migrated{Path: shared.Name, From: shared.Version, To: shared.Newest}, opened.Close()
}

// Moved is what [Keeper.Move] did.
type Moved struct {
	From string `json:"from"` // the home's file
	To   string `json:"to"`   // HOST:PORT/DATABASE
	Rows int    `json:"rows"`
}

// Move moves what the home stores to the empty database of store.dsn, all of it or nothing, and
// nothing when it is there already. The index of the trail stays, and so does the master key. It
// refuses while anything serves over the home.
func (k Keeper) Move(ctx context.Context) (out Moved, err error) {
	if k.DSN.Empty() {
		return out, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: "store.dsn names no database to move to",
			Hint: "set store.dsn in config.yaml, or KIMBAP_STORE_DSN, to postgres://USER@HOST/DATABASE",
		}
	}
	if out.From, err = k.file(); err != nil {
		return out, err
	}
	if running := roster.Folder(k.Home.State()).Serving(roster.Any); len(running) > 0 {
		return out, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("a %s with process id %d works with what is in the home", running[0].Kind, running[0].PID),
			Hint: "end it, and try again",
		}
	}
	db, err := sqlite.Open(ctx, sqlite.Options{Path: out.From})
	if err != nil {
		return out, k.Home.Hindered(err, k.UID)
	}
	if out.To, err = k.movedTo(ctx, db); err == nil && out.To == "" {
		out.Rows, err = db.MoveTo(ctx, func(rows tables.Rows) (_ string, err error) {
			out.To, err = postgres.Take(ctx, k.shared(), rows)
			return out.To, err
		})
	}
	return out, errors.Join(err, db.Close())
}

// movedTo names the database that has what the home stores, "" when the home has it.
func (k Keeper) movedTo(ctx context.Context, db *sqlite.DB) (name string, err error) {
	if own, err := db.CheckValue(ctx); err != nil || own != nil {
		return "", err
	}
	name, _, err = db.Elsewhere(ctx)
	return name, err
}

// Copy writes a consistent copy to a file that must not be there yet,
// and returns how the copy stands. With store.dsn it copies nothing: what it
// would have copied may be moved, or not yet.
func (k Keeper) Copy(ctx context.Context, to string) (sqlite.Inspection, error) {
	if !k.DSN.Empty() {
		return sqlite.Inspection{}, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: "store.dsn is set, and what is in PostgreSQL its own tools copy",
			Hint: "pg_dump --schema=kimbap --file=" + runtime.Quote(to) + " DSN; what is still in the home is copied without store.dsn",
		}
	}
	path, err := k.file()
	if err != nil {
		return sqlite.Inspection{}, err
	}
	if to, err = filepath.Abs(to); err != nil {
		return sqlite.Inspection{}, err
	}
	if err := sqlite.Copy(ctx, path, to); err != nil {
		place := (*fs.PathError)(nil)
		if errors.As(err, &place) || runtime.AsError(err).Code != runtime.CodeInternal {
			return sqlite.Inspection{}, err // it is of the copy's own place
		}
		return sqlite.Inspection{}, k.Home.Hindered(err, k.UID)
	}
	return sqlite.Inspect(ctx, to)
}

func (k Keeper) file() (string, error) {
	if err := k.Home.Check(k.UID); err != nil {
		return "", err
	}
	path, err := filepath.Abs(k.Home.Database())
	if err != nil {
		return "", &runtime.Error{Code: runtime.CodeInternal, Msg: "the home has no path", Err: err}
	}
	return path, nil
}

// shared are the options of the database that homes share.
func (k Keeper) shared() postgres.Options { return postgres.Options{DSN: k.DSN.Reveal(), Told: k.Told} }
