//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/runtime/store/postgres"
	"github.com/kimbap-run/kimbap/runtime/store/postgres/postgrestest"
)

// bounded fails the test when a call takes ten times as long as it may.
func bounded(t *testing.T, call func() error) error {
	t.Helper()
	begun := time.Now()
	err := call()
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	return err
}

// is demands an error of that code and reason, whose texts have no password.
func is(t *testing.T, what string, err error, code runtime.Code, reason runtime.Reason) {
	t.Helper()
	e := runtime.AsError(err)
	if err == nil || e.Code != code || e.Reason != reason {
		t.Errorf("%s: %v is %q, %q and not %q, %q", what, err, e.Code, e.Reason, code, reason)
	}
	if e.Msg == "" || e.Hint == "" {
		t.Errorf("%s: it does not say what or what helps: %+v", what, e)
	}
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.Contains(err.Error()+e.Msg+e.Hint, postgrestest.Password) || strings.Contains(err.Error(), "pass%2F") {
			t.Errorf("%s: the password stands in %q", what, err)
		}
	}
}

// CR-011: while the database is gone, silent, read-only or full every call says so, within
// its time; when it is back calls work again, without anybody's help.
func TestWhileTheDatabaseCannotBeUsed(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, "max_connections=8", "superuser_reserved_connections=0")
	line, name := server.Line(t), server.Database(t)
	db := opened(t, line.DSN(name), true)
	for _, c := range []struct {
		name    string
		breaks  func(t testing.TB)
		mends   func(t testing.TB)
		reading bool // goes on
	}{
		{"cut", func(testing.TB) { line.Cut() }, func(testing.TB) { line.Mend() }, false},
		{"silent", func(testing.TB) { line.Silence() }, func(testing.TB) { line.Cut(); line.Mend() }, false},
		{"stopped", server.Stop, server.Resume, false},
		{
			"failed over to one that stands by",
			func(t testing.TB) {
				server.Exec(t, "postgres", "ALTER DATABASE "+name+" SET default_transaction_read_only = on")
				line.Cut()
				line.Mend()
			},
			func(t testing.TB) {
				server.Exec(t, "postgres", "ALTER DATABASE "+name+" RESET default_transaction_read_only")
				line.Cut()
				line.Mend()
			}, true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 3 { // which leaves several connections behind
				if _, err := db.CheckValue(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			c.breaks(t)
			err := bounded(t, func() error { _, err := db.CheckValue(t.Context()); return err })
			if !c.reading {
				is(t, "reading", err, runtime.CodeStorageBusy, runtime.ReasonStorageUnavailable)
			} else if err != nil {
				t.Errorf("reading: %v", err)
			}
			err = bounded(t, func() error { _, err := db.Changes(t.Context()); return err })
			if (err != nil) == c.reading {
				t.Errorf("the change counter: %v", err)
			}
			err = bounded(t, func() error {
				return db.ChangeLimit(t.Context(), "a", func(full time.Time) time.Time { return full.Add(time.Second) })
			})
			is(t, "a transaction", err, runtime.CodeStorageBusy, runtime.ReasonStorageUnavailable)
			err = bounded(t, func() error {
				_, err := db.RevokeToken(t.Context(), "default", "tok_1", time.Unix(1, 0))
				return err
			})
			is(t, "a statement", err, runtime.CodeStorageBusy, runtime.ReasonStorageUnavailable)
			c.mends(t)
			runtimetest.Within(t, 30*time.Second, "a statement after it", func() bool {
				return db.ChangeLimit(t.Context(), "a", func(full time.Time) time.Time { return full.Add(time.Second) }) == nil
			})
		})
	}
}

// Behind a failover every connection that was kept is broken, and what it is used for first
// is not lost with it: no transaction has begun there.
func TestATransactionOnConnectionsThatAreAllBroken(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	line := server.Line(t)
	db := opened(t, line.DSN(server.Database(t)), true)
	change := func(name string) error {
		return db.ChangeLimit(t.Context(), name, func(full time.Time) time.Time { return full.Add(time.Second) })
	}
	for round := range 4 {
		var used sync.WaitGroup
		for i := range 8 { // each on a connection of its own
			used.Go(func() {
				if err := change(fmt.Sprint(i)); err != nil {
					t.Errorf("before: %v", err)
				}
			})
		}
		used.Wait()
		line.Cut()
		line.Mend()
		if round%2 == 0 {
			if err := change("after"); err != nil {
				t.Errorf("after: %v", err)
			}
			continue
		}
		// What one statement did is not known when its connection breaks, but it is the last one.
		revoke := func() error {
			_, err := db.RevokeToken(t.Context(), "default", "tok_1", time.Unix(1, 0))
			return err
		}
		if _, again := revoke(), revoke(); again != nil {
			t.Errorf("a second statement: %v", again)
		}
	}
}

func TestADatabaseThatTakesNoMoreConnections(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, "max_connections=4", "superuser_reserved_connections=0", "max_wal_senders=0")
	line, name := server.Line(t), server.Database(t)
	db := opened(t, line.DSN(name), true)
	line.Cut() // ours goes
	line.Mend()
	for {
		conn, err := server.Connect(t.Context(), name)
		if err != nil {
			break // it is full
		}
		defer func() { _ = conn.Close(context.Background()) }()
	}
	is(t, "a full server", db.SetCheckValue(t.Context(), []byte("x")), runtime.CodeStorageBusy, runtime.ReasonStorageUnavailable)
}

// A lock of somebody else's that lasts is busy, and nothing is half written.
func TestALockThatLasts(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	line, name := server.Line(t), server.Database(t)
	db := opened(t, line.DSN(name), true)
	other, err := server.Connect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(context.Background()) }()
	hold, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hold.Exec(t.Context(), "LOCK TABLE kimbap.limits IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	full := time.Unix(100, 0).UTC()
	take := func() error {
		return db.ChangeLimit(t.Context(), "a", func(was time.Time) time.Time { full = was.Add(time.Second); return full })
	}
	is(t, "a locked table", bounded(t, take), runtime.CodeStorageBusy, "")
	if err := hold.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := take(); err != nil {
		t.Fatal(err)
	}
	if !full.Equal(time.Time{}.Add(time.Second)) {
		t.Errorf("what failed was stored: full at %s", full)
	}
}

// A caller who leaves while the database is silent is not kept waiting for it.
func TestWhoLeavesIsNotHeld(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	line := server.Line(t)
	db := opened(t, line.DSN(server.Database(t)), true)
	line.Silence()
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if _, err := db.CheckValue(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	line.Cut() // else who closes it waits for what is on the way
}

// What opens is the database that was meant, and nothing is made in another's place.
func TestRefuses(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	line := server.Line(t)
	used := server.Database(t)
	if err := opened(t, line.DSN(used), true).Close(); err != nil {
		t.Fatal(err)
	}
	newer := server.Database(t)
	if err := opened(t, line.DSN(newer), true).Close(); err != nil {
		t.Fatal(err)
	}
	server.Exec(t, newer, "INSERT INTO kimbap.schema_version (version) VALUES (999)")
	spoiled := server.Database(t)
	if err := opened(t, line.DSN(spoiled), true).Close(); err != nil {
		t.Fatal(err)
	}
	server.Exec(t, spoiled, "DROP TABLE kimbap.secrets")
	for _, c := range []struct {
		name, dsn string
		create    bool
		want      string
	}{
		{"empty", line.DSN(server.Database(t)), false, "has no tables of kimbap"},
		{"newer", line.DSN(newer), true, "schema version 999"},
		{"not there", line.DSN("nowhere"), true, "no database of that name"},
		{"a wrong password", strings.Replace(line.DSN(used), "pass", "boss", 1), false, "user or password"},
		{"no TLS", line.DSN(used) + "?sslmode=verify-full", false, "does not speak TLS"},
		{"nobody listens", "postgres://a:" + "pass%2F@127.0.0.1:1/b", false, "cannot be used"},
		{"unreadable", "postgres://a:pass/w@rd?#:%@h/b", false, "store.dsn is refused"},
		{"another scheme", "mysql://a@h/b", false, "no address of a PostgreSQL database"},
		{"a port that is none", "postgres://a:" + "pass%2F@h:99999999/b", false, "store.dsn is refused"},
	} {
		db, err := postgres.Open(t.Context(), postgres.Options{DSN: c.dsn, Create: c.create})
		if err == nil {
			_ = db.Close()
		}
		e := runtime.AsError(err)
		if err == nil || !strings.Contains(e.Msg, c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		is(t, c.name, err, e.Code, e.Reason)
	}
}

// What a request meets of the database is told to agents, who need not hear where it is. Who
// reads the cause does.
func TestAgentsDoNotHearWhereTheDatabaseIs(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	line := server.Line(t)
	spoiled := server.Database(t)
	db := opened(t, line.DSN(spoiled), true)
	for _, c := range []struct{ name, statement string }{
		{"a table that is gone", "DROP TABLE kimbap.secrets"},
		{"columns that are gone", "CREATE VIEW kimbap.secrets AS SELECT '' AS tenant, '' AS name"},
	} {
		server.Exec(t, spoiled, c.statement)
		_, _, err := db.Secret(t.Context(), "default", "a")
		is(t, c.name, err, runtime.CodeInternal, runtime.ReasonStorageUnavailable)
		e := runtime.AsError(err)
		if told := e.Msg + " " + e.Hint; strings.Contains(told, spoiled) || strings.Contains(told, "127.0.0.1") || !strings.Contains(fmt.Sprint(e.Err), spoiled) {
			t.Errorf("%s: agents hear %q, the cause is %v", c.name, told, e.Err)
		}
	}
	_, err := postgres.Open(t.Context(), postgres.Options{DSN: strings.Replace(line.DSN(spoiled), "pass", "boss", 1)})
	if e := runtime.AsError(err); err == nil || strings.Contains(e.Msg+e.Hint, spoiled) || !strings.Contains(fmt.Sprint(e.Err), spoiled) {
		t.Errorf("a wrong password: %v, %v", err, e.Err)
	}
}

// Who asks a silent server several times waits once.
func TestASilentServerIsWaitedForOnce(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	line := server.Line(t)
	db := opened(t, line.DSN(server.Database(t)), true)
	line.Silence()
	begun := time.Now()
	if _, err := db.CheckValue(t.Context()); err == nil {
		t.Fatal("a silent server has answered")
	}
	first := time.Since(begun)
	for range 20 {
		_, err := db.CheckValue(t.Context())
		is(t, "asked again", err, runtime.CodeStorageBusy, runtime.ReasonStorageUnavailable)
	}
	if all := time.Since(begun); all > 5*first { // each had taken as long as the first
		t.Errorf("the first took %s, and 21 of them %s", first, all)
	}
	line.Cut()
	line.Mend()
	runtimetest.Within(t, 30*time.Second, "somebody finds out that it answers again", func() bool {
		_, err := db.Changes(t.Context()) // which asks however silent it is
		return err == nil
	})
	if _, err := db.CheckValue(t.Context()); err != nil {
		t.Errorf("after it: %v", err)
	}
}
