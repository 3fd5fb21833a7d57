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
		return opened(t, line.DSN(server.Database(t)), true)
	})
}
