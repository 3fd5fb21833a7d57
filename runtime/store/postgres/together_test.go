//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/store/postgres"
	"github.com/kimbap-run/kimbap/runtime/store/postgres/postgrestest"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// What many processes do at once comes out as if one had done it after the other.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, "deadlock_timeout=20ms")
	line := server.Line(t)
	for name, test := range map[string]func(t *testing.T, server *postgrestest.Server, line *postgrestest.Line){
		"a bucket that is forgotten while one takes from it": forgottenMeanwhile,
		"last uses of the same credentials":                  lastUses,
		"what is forgotten while it is released":             releasedMeanwhile,
		"a deadlock":                                         deadlock,
	} {
		t.Run(name, func(t *testing.T) { test(t, server, line) })
	}
}

// A request that is taken from a bucket counts, also where another process tidies the
// bucket away at that moment.
func forgottenMeanwhile(t *testing.T, server *postgrestest.Server, line *postgrestest.Line) {
	dsn := line.DSN(server.Database(t))
	one, two := opened(t, dsn, true), opened(t, dsn, false)
	long, now := time.Unix(1000, 0).UTC(), time.Unix(1_000_000, 0).UTC()
	to := func(next time.Time) func(time.Time) time.Time { return func(time.Time) time.Time { return next } }
	if err := one.ChangeLimit(t.Context(), "old", to(long)); err != nil {
		t.Fatal(err)
	}
	err := one.ChangeLimit(t.Context(), "old", func(time.Time) time.Time {
		if err := two.ChangeLimit(t.Context(), "new", to(now)); err != nil {
			t.Error(err)
		}
		return now
	})
	if err != nil {
		t.Fatal(err)
	}
	err = one.ChangeLimit(t.Context(), "old", func(full time.Time) time.Time {
		if !full.Equal(now) {
			t.Errorf("what was taken is forgotten: full at %s", full)
		}
		return full
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Last uses are noted in any order.
func lastUses(t *testing.T, server *postgrestest.Server, line *postgrestest.Line) {
	dsn := line.DSN(server.Database(t))
	one, two := opened(t, dsn, true), opened(t, dsn, false)
	if err := one.SetCheckValue(t.Context(), []byte("check")); err != nil {
		t.Fatal(err)
	}
	if err := one.AddTenantKey(t.Context(), vault.TenantKey{Tenant: "default", Version: 1, Wrapped: []byte("k")}, []byte("check")); err != nil {
		t.Fatal(err)
	}
	used := map[string]time.Time{}
	for i := range 20 {
		name := fmt.Sprintf("name-%d", i)
		if err := one.PutSecrets(t.Context(), vault.Sealed{Tenant: "default", Name: name, Version: 1, KeyVersion: 1, Ciphertext: []byte("c")}); err != nil {
			t.Fatal(err)
		}
		used[name] = time.Unix(1, 0)
	}
	var all sync.WaitGroup
	for i := range 6 {
		db := one
		if i%2 == 1 {
			db = two
		}
		all.Go(func() {
			for j := range 20 {
				mine := map[string]time.Time{}
				for name := range used {
					mine[name] = time.Unix(int64(2+i+6*j), 0)
				}
				if err := db.Touch(t.Context(), "default", mine); err != nil {
					t.Errorf("%v", err)
					return
				}
			}
		})
	}
	all.Wait()
}

// An approval is released while another process forgets it: neither waits for the other
// until one is ended and has to begin again.
func releasedMeanwhile(t *testing.T, server *postgrestest.Server, line *postgrestest.Line) {
	name := server.Database(t)
	if err := opened(t, line.DSN(name), true).Close(); err != nil {
		t.Fatal(err)
	}
	drops, releases := 0, 0 // those that were begun
	two, err := postgres.Open(t.Context(), postgres.Options{DSN: line.DSN(name), Told: func(statement string) {
		if strings.HasPrefix(statement, "DELETE FROM approvals") {
			drops++
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = two.Close() }()
	forgotten := make(chan error, 1)
	one, err := postgres.Open(t.Context(), postgres.Options{DSN: line.DSN(name), Told: func(statement string) {
		switch {
		case strings.HasPrefix(statement, "DELETE FROM held"):
			releases++
		case strings.HasPrefix(statement, "UPDATE approvals SET kept") && releases == 1:
			go func() { forgotten <- two.DropApprovals(context.Background(), time.Unix(1000, 0)) }()
			server.Await(t, name, "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted)")
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = one.Close() }()
	at := time.Unix(1, 0)
	a := approval.Approval{ID: "apr_1", Tenant: "default", State: approval.Expired, Sealed: []byte("held"), Created: at, Expires: at}
	if err := one.AddApproval(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	released, err := one.Release(t.Context(), a.Tenant, a.ID, []byte("kept"))
	if err != nil || !released || releases != 1 {
		t.Errorf("released: %v, at try %d: %v", released, releases, err)
	}
	if err := <-forgotten; err != nil || drops != 2 { // the second finds nothing
		t.Errorf("forgotten at try %d: %v", drops-1, err)
	}
	if _, found, err := one.Approval(t.Context(), a.Tenant, a.ID); found || err != nil {
		t.Errorf("it is still there: %v, %v", found, err)
	}
}

// A transaction that the database ends because of a deadlock has done nothing, and is done
// again.
func deadlock(t *testing.T, server *postgrestest.Server, line *postgrestest.Line) {
	name := server.Database(t)
	db := opened(t, line.DSN(name), true)
	other, err := server.Connect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(context.Background()) }()
	at := time.Unix(1000, 0).UTC()
	if err := db.ChangeLimit(t.Context(), "a", func(time.Time) time.Time { return at }); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(t.Context(), "SET deadlock_timeout = '1min'; BEGIN; UPDATE kimbap.limits SET full_at = full_at"); err != nil {
		t.Fatal(err)
	}
	tries := 0
	waited := make(chan error, 1)
	err = db.ChangeLimit(t.Context(), "a", func(full time.Time) time.Time {
		if tries++; tries > 1 {
			return full.Add(time.Second)
		}
		go func() { // it waits for our turn, and we for its row
			_, err := other.Exec(context.Background(), "SELECT pg_advisory_xact_lock(hashtextextended('limit a', 0)); COMMIT")
			waited <- err
		}()
		server.Await(t, name, "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)")
		return full.Add(time.Hour)
	})
	if err != nil || tries != 2 || <-waited != nil {
		t.Errorf("after %d tries: %v", tries, err)
	}
	err = db.ChangeLimit(t.Context(), "a", func(full time.Time) time.Time {
		if !full.Equal(at.Add(time.Second)) {
			t.Errorf("full at %s", full)
		}
		return full
	})
	if err != nil {
		t.Error(runtime.AsError(err))
	}
}
