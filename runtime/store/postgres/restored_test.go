//go:build unix

package postgres_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/store/postgres"
	"github.com/kimbap-run/kimbap/runtime/store/postgres/postgrestest"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// A database may be another one than it was: put back from a backup, or made in a way of
// which we know nothing.
func TestDatabasesOfOthers(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	line := server.Line(t)
	t.Run("the change counter after a restore", func(t *testing.T) { restored(t, server, line) })
	t.Run("an encoding that cannot hold every text", func(t *testing.T) {
		server.Exec(t, "postgres", "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
		db, err := postgres.Open(t.Context(), postgres.Options{DSN: line.DSN("latin"), Create: true})
		if err == nil {
			t.Fatal("it was taken", db.Close())
		}
		is(t, "LATIN1", err, runtime.CodeInternal, runtime.ReasonStorageUnavailable)
	})
	t.Run("an order of another language", func(t *testing.T) { ordered(t, server, line) })
}

// What is remembered is forgotten when a backup was put back, however many changes there
// were before it and since.
func restored(t *testing.T, server *postgrestest.Server, line *postgrestest.Line) {
	name := server.Database(t)
	db := opened(t, line.DSN(name), true)
	changed := func() int64 {
		t.Helper()
		if err := db.SetLock(t.Context(), vault.Lock{}); err != nil {
			t.Fatal(err)
		}
		counter, err := db.Changes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return counter
	}
	if err := db.SetCheckValue(t.Context(), []byte("x")); err != nil {
		t.Fatal(err)
	}
	backup := changed()
	before := changed()
	server.Exec(t, name, fmt.Sprintf("UPDATE kimbap.changes SET counter = %d", backup))
	if after := changed(); after == before {
		t.Errorf("the counter is %d after a restore and another change, as before", after)
	}
}

// Names come in the order of their bytes, as from a file, whatever language the database
// was made for: an index over another order is wrong when the system's next version sorts
// otherwise.
func ordered(t *testing.T, server *postgrestest.Server, line *postgrestest.Line) {
	server.Exec(t, "postgres", "CREATE DATABASE german TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'de' LOCALE 'C.UTF-8'")
	db := opened(t, line.DSN("german"), true)
	if err := db.SetCheckValue(t.Context(), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := db.AddTenantKey(t.Context(), vault.TenantKey{Tenant: "default", Version: 1, Wrapped: []byte("k")}, []byte("x")); err != nil {
		t.Fatal(err)
	}
	names := []string{"B", "Z_1", "a", "b-2", "b_1", "\u00e9"}
	for _, name := range names {
		if err := db.PutSecrets(t.Context(), vault.Sealed{Tenant: "default", Name: name, Version: 1, KeyVersion: 1, Ciphertext: []byte("c")}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := db.Secrets(t.Context(), "default")
	var got []string
	for _, s := range list {
		got = append(got, s.Name)
	}
	if err != nil || !slices.Equal(got, names) {
		t.Errorf("%q, %v", got, err)
	}
}
