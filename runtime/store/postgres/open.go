package postgres

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

// Options say which database to open.
type Options struct {
	DSN    string // postgres://…; required
	Create bool   // make the tables where there are none
	// Clock is that of the home whose rows [Take] compares; time.Now when nil.
	Clock func() time.Time
	// Told is given each statement before it runs, its values left out; nil: nobody
	// is told. It is called by many at once.
	Told func(statement string)
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	*tables.Store
	pool *pgxpool.Pool
	name string // for a person
	told func(statement string)
	wait struct{ call, glance time.Duration } // see patience and glance; tests have more time
	silence
}

// Open connects, checks that the tables are ours and not newer than this program, and
// brings older ones up to date in one transaction. The error is an *runtime.Error, and
// no text of it has the password.
func Open(ctx context.Context, o Options) (*DB, error) {
	db, err := connect(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := db.prepare(ctx, o.Create); err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

func connect(ctx context.Context, o Options) (*DB, error) {
	config, err := configure(o.DSN)
	if err != nil {
		return nil, err
	}
	db := &DB{name: shown(config), told: o.Told, silence: silence{born: time.Now()}}
	db.wait.call, db.wait.glance = patience, glance
	if db.told == nil {
		db.told = func(string) {}
	}
	db.Store = tables.New(engine{db})
	db.pool, err = pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, db.fault(ctx, "open", err)
	}
	return db, nil
}

// Close closes the connections after the running statements. It can be called again, and
// does not wait for a server that is silent: that one's connections end by themselves.
func (db *DB) Close() error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		db.pool.Close()
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
	return nil
}

// Name says which database it is, for a person: HOST:PORT/DATABASE.
func (db *DB) Name() string { return db.name }

// NameOf is the name that the database of an address has, without asking it.
func NameOf(address string) (string, error) {
	config, err := configure(address)
	if err != nil {
		return "", err
	}
	return shown(config), nil
}

// within runs work with the time that a call may take, and says what its error means. A
// caller who leaves is noticed before it, not within it: nobody could know then what was
// done. Work of which nothing was sent is tried once more: behind a failover every
// connection that was kept is found broken. So is work that the database undid itself.
func (db *DB) within(ctx context.Context, doing string, work func(ctx context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return db.fault(ctx, doing, err)
	}
	if db.lasts() {
		return db.unavailable(doing, noAnswer, errSilent)
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.wait.call)
	defer cancel()
	err := db.renewed(bounded, work(bounded))
	if err != nil && (pgconn.SafeToRetry(err) || undone(err)) && bounded.Err() == nil {
		err = work(bounded)
	}
	return db.fault(context.WithoutCancel(ctx), doing, db.noted(err))
}

// renewed lets go of the connections that are kept when one of them was found broken: the
// others will be too. Of a server that is slow they are left, it has enough to do, and a caller
// who leaves says nothing of them.
func (db *DB) renewed(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && broken(err) && !pgconn.Timeout(err) {
		db.pool.Reset()
	}
	return err
}

// noted is an error that a call ended with, once it is known what that says of the server.
func (db *DB) noted(err error) error {
	var said *pgconn.PgError
	switch {
	case err == nil, errors.As(err, &said):
		db.answered()
	case pgconn.Timeout(err), errors.Is(err, context.DeadlineExceeded):
		db.missed()
	}
	return err
}

// query gives the rows that are found to scan. Who leaves is not waited for.
func (db *DB) query(ctx context.Context, doing, text string, args []any, scan func(tables.Row) error) error {
	if db.lasts() {
		return db.unavailable(doing, noAnswer, errSilent)
	}
	return db.ask(ctx, db.wait.call, doing, text, args, scan)
}

// ask is query, however silent the server is, and waits no longer.
func (db *DB) ask(ctx context.Context, long time.Duration, doing, text string, args []any, scan func(tables.Row) error) error {
	bounded, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	db.told(text)
	scanned := false
	read := func() error {
		rows, err := db.pool.Query(bounded, numbered(text), arguments(args)...)
		if err != nil {
			return err
		}
		return each(rows, func(r tables.Row) error { scanned = true; return scan(r) })
	}
	err := db.renewed(bounded, read())
	if err != nil && !scanned && broken(err) && bounded.Err() == nil {
		err = read() // it changes nothing
	}
	if ctx.Err() != nil && err != nil {
		return db.fault(ctx, doing, err) // who left has not waited for the server
	}
	return db.fault(ctx, doing, db.noted(err))
}

// transact runs change in one transaction. It says its isolation itself: with another one,
// which a database may have for all, who has waited for its turn would not see what was done
// before, and would do it again.
func (db *DB) transact(ctx context.Context, change func(t tx) error) error {
	begun, err := db.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil && broken(err) {
		return unbegun{err}
	} else if err != nil {
		return err
	}
	done := false
	defer func() {
		if !done { // an error or a panic on its way up
			_ = begun.Rollback(ctx)
		}
	}()
	if err := change(tx{db, begun, ctx}); err != nil {
		return err
	}
	done = true
	return begun.Commit(ctx)
}

// Changes returns a counter that is greater whenever a secret, a tenant key or a token
// was added, changed or removed by any process since the last call. It answers within
// half a second or has an error: who asks then takes nothing for known. It asks a server
// that is silent too, and so finds out when it is not any more.
func (db *DB) Changes(ctx context.Context) (counter int64, err error) {
	err = db.ask(ctx, db.wait.glance, "watch", "SELECT counter FROM changes", nil, func(r tables.Row) error { return r.Scan(&counter) })
	if err == nil && counter == 0 {
		err = db.strange("the change counter is missing", nil)
	}
	return counter, err
}

// Lease gives a holder something for so long, or for longer if it has it already; false
// when another has it. The database's clock counts.
func (db *DB) Lease(ctx context.Context, name, holder string, long time.Duration) (bool, error) {
	n, err := engine{db}.Exec(ctx, "take a lease", `INSERT INTO leases AS l (name, holder, until)
		VALUES (?1, ?2, now() + CAST(?3 AS BIGINT) * INTERVAL '1 millisecond')
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
		WHERE l.holder = excluded.holder OR l.until <= now()`, []any{name, holder, long.Milliseconds()})
	return n > 0, err
}

// Leased reports whether somebody has it.
func (db *DB) Leased(ctx context.Context, name string) (leased bool, err error) {
	err = db.query(ctx, "look at a lease", "SELECT EXISTS (SELECT 1 FROM leases WHERE name = ? AND until > now())",
		[]any{name}, func(r tables.Row) error { return r.Scan(&leased) })
	return leased, err
}

// EndLease gives it back, and forgets leases of which nobody knew any more.
func (db *DB) EndLease(ctx context.Context, name, holder string) error {
	_, err := engine{db}.Exec(ctx, "give a lease back", `DELETE FROM leases
		WHERE name = ?1 AND holder = ?2 OR until < now() - INTERVAL '1 day'`, []any{name, holder})
	return err
}

func portText(port uint16) string { return strconv.Itoa(int(port)) }

// strange is the error of a database that is not as we left it.
func (db *DB) strange(why string, err error) error {
	return &runtime.Error{
		Code: runtime.CodeInternal, Reason: runtime.ReasonStorageUnavailable,
		Msg:  "the database of the shared store is refused: " + why + "; nothing was changed",
		Hint: "restore a backup of it, or name another one in store.dsn", Err: db.named(err),
	}
}
