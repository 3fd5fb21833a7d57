//go:build unix

package postgres_test

import (
	"errors"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/store/postgres"
	"github.com/kimbap-run/kimbap/runtime/store/postgres/postgrestest"
	"github.com/kimbap-run/kimbap/runtime/store/storetest"
)

func opened(t testing.TB, dsn string, create bool) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Options{DSN: dsn, Create: create})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(db.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestStores(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	line := server.Line(t)
	storetest.Run(t, func(t *testing.T) storetest.Store {
		db := opened(t, line.DSN(server.Database(t))+"?connect_timeout=60&statement_timeout=60000&lock_timeout=60000&idle_in_transaction_session_timeout=60000", true)
		db.Unhurried()
		return db
	})
}
