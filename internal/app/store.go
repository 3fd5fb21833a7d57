package app

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/internal/database"
	"github.com/kimbap-run/kimbap/internal/neighbours"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/identity"
	"github.com/kimbap-run/kimbap/runtime/limit"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
	"github.com/kimbap-run/kimbap/runtime/store/postgres"
	"github.com/kimbap-run/kimbap/runtime/store/sqlite"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// store keeps everything but the trail.
type store interface {
	vault.Store
	identity.Store
	approval.Store
	limit.Store
	journal.Store
	Changes(ctx context.Context) (int64, error)
	DropTenant(ctx context.Context, tenant runtime.Tenant, now time.Time, may func(tokens, pending []string, credentials int) error) error
	DropApprovals(ctx context.Context, before time.Time) error
	KeepsOf(ctx context.Context, tenant runtime.Tenant) (bool, error)
}

var (
	_ store = (*sqlite.DB)(nil)
	_ store = (*postgres.DB)(nil)
)

// openStore opens the home's database and, where store.dsn names one, the database that
// has everything but the trail's index.
func (a *App) openStore(ctx context.Context) error {
	local, err := a.openIndex(ctx)
	if err == nil {
		err = a.openShared(ctx, local)
	}
	if err == nil || ctx.Err() != nil || !a.o.Storeless {
		return err
	}
	if local == nil && !a.o.Emergency { // what says how things are searches the trail
		return err
	}
	if local == nil {
		a.index = noIndex{err}
	}
	a.goWithout(err)
	a.meet(nil, true)
	return nil
}

// openIndex opens the home's database: the index of its trail, and everything else where
// no other database has that.
func (a *App) openIndex(ctx context.Context) (*sqlite.DB, error) {
	local, err := sqlite.Open(ctx, sqlite.Options{
		Path: a.home.Database(), Told: a.logsStatements(),
		Create: a.fresh || a.Shares(), // an index can be made anew
	})
	if err != nil {
		return nil, a.home.Hindered(err, a.o.UID)
	}
	a.onClose(func(context.Context) error { return local.Close() })
	a.index = local
	return local, nil
}

// openShared opens the store, which is in the home or in the database of store.dsn.
func (a *App) openShared(ctx context.Context, local *sqlite.DB) error {
	there, name, err := local.Elsewhere(ctx)
	if err != nil {
		return err
	}
	if !a.Shares() {
		if err := a.notElsewhere(there); err != nil {
			return err
		}
		a.store = local
		return nil
	}
	shared, err := postgres.Open(ctx, postgres.Options{DSN: a.config.Current().Store.DSN.Reveal(), Told: a.logsStatements(), Create: a.fresh})
	if err != nil {
		return err
	}
	a.shared = shared
	a.onClose(func(context.Context) error { return shared.Close() })
	a.meet(shared, false)
	a.onClose(func(ctx context.Context) error { a.neighbours.End(ctx); return nil }) // after all that it may hold
	a.store = shared
	if a.homeName = name; there == shared.Name() {
		return nil
	}
	return a.settleStore(ctx, local, there)
}

// meet says over which homes the processes are that this one has to know of; unknown, that
// nobody can tell.
func (a *App) meet(shared neighbours.Leases, unknown bool) {
	a.neighbours = neighbours.New(neighbours.Options{
		Home: a.home, Self: a.self, Shared: shared, Unknown: unknown, Clock: a.o.Clock,
		Unheard: func(err error) { a.o.Log.Warn().Err(err).Msg("other homes are not told that this process lives") },
	})
}

// joins reports whether this is a new home that shares a store: its key was put there
// before it was made.
func (a *App) joins() bool {
	_, err := os.Lstat(a.home.Database())
	return a.Shares() && errors.Is(err, fs.ErrNotExist)
}

// settleStore notes in the home where its store is, for the first time or anew. A home that has
// one of its own keeps that until it is moved: nobody would look for it any more. Where it
// was in another database before, that may have got another name, but is no empty one.
func (a *App) settleStore(ctx context.Context, local *sqlite.DB, before string) error {
	own, err := local.CheckValue(ctx)
	if err != nil {
		return err
	}
	if own != nil {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: "store.dsn names the database " + a.shared.Name() + ", and what is stored is still in the home",
			Hint: "move it there: kimbap db move",
		}
	}
	if before != "" {
		switch value, err := a.shared.CheckValue(ctx); {
		case err != nil:
			return err
		case value == nil:
			return &runtime.Error{
				Code: runtime.CodeInvalidInput, Msg: "the database " + a.shared.Name() + " was never used, and what this home stores is in " + before,
				Hint: "name that one in store.dsn",
			}
		}
	}
	if err := local.SetElsewhere(ctx, a.shared.Name()); err != nil {
		return err
	}
	_, a.homeName, err = local.Elsewhere(ctx)
	return err
}

// notElsewhere refuses a home whose store is in a database that the configuration names no
// more: it would pass for one that was never used, and get a new key.
func (a *App) notElsewhere(name string) error {
	if name == "" {
		return nil
	}
	e := &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: "what this home stores is in the database " + name + ", and store.dsn does not say how to get there",
		Hint: "set store.dsn in config.yaml, or KIMBAP_STORE_DSN",
	}
	if a.unread != nil {
		e.Hint, e.Err = "kimbap config show --origin", a.unread
	}
	return e
}

// Shares reports whether store.dsn names a database; the home's own has the index of the
// trail then.
func (a *App) Shares() bool { return !a.config.Current().Store.DSN.Empty() }

// Database is how the home's database stands, and SharedDatabase one that homes share.
type (
	Database       = sqlite.Inspection
	SharedDatabase = postgres.Inspection
)

// Databases works on what the home stores while it is not open.
func (a *App) Databases() database.Keeper {
	return database.Keeper{Home: a.home, UID: a.o.UID, DSN: a.config.Current().Store.DSN, Told: a.logsStatements()}
}

// logsStatements writes what is asked of the store to a log that wants everything.
func (a *App) logsStatements() func(string) {
	if a.o.Log.GetLevel() > zerolog.TraceLevel {
		return nil
	}
	return func(statement string) { a.o.Log.Trace().Str("statement", statement).Msg("store") }
}
