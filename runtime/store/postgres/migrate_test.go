//go:build unix

package postgres_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/store/postgres"
	"github.com/kimbap-run/kimbap/runtime/store/postgres/postgrestest"
)

// Tables of each older version become those of a new database, and keep what they have,
// though several machines begin at once.
func TestOlderTablesAreBroughtUpToDate(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	line := server.Line(t)
	fresh := server.Database(t)
	opened(t, line.DSN(fresh), true)
	want := shape(t, server, fresh)
	files, err := filepath.Glob("schema/*.sql")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	slices.Sort(files)
	for version := 1; version < len(files); version++ {
		name := server.Database(t)
		server.Exec(t, name, "CREATE SCHEMA kimbap; CREATE TABLE kimbap.schema_version (version BIGINT PRIMARY KEY, at TIMESTAMPTZ NOT NULL DEFAULT now())")
		for i, file := range files[:version] {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			server.Exec(t, name, fmt.Sprintf("SET search_path = kimbap; %s; INSERT INTO schema_version (version) VALUES (%d)", text, i+1))
		}
		server.Exec(t, name, "INSERT INTO kimbap.vault (id, check_value) VALUES (1, 'c'); INSERT INTO kimbap.tenant_keys VALUES ('default', 1, 'k', 1)")
		var machines sync.WaitGroup
		for range 4 {
			machines.Go(func() {
				db, err := postgres.Open(t.Context(), postgres.Options{DSN: line.DSN(name)})
				if err != nil {
					t.Errorf("version %d: %v", version, err)
					return
				}
				defer db.Close()
				keys, err := db.TenantKeys(t.Context(), "default")
				if err != nil || len(keys) != 1 || string(keys[0].Wrapped) != "k" {
					t.Errorf("version %d: %+v, %v", version, keys, err)
				}
			})
		}
		machines.Wait()
		if got := shape(t, server, name); got != want {
			t.Errorf("version %d became\n%s\nnot\n%s", version, got, want)
		}
		if found, err := postgres.Inspect(t.Context(), postgres.Options{DSN: line.DSN(name)}); err != nil || found.Version != len(files) {
			t.Errorf("version %d: %+v, %v", version, found, err)
		}
	}
}

// shape is what the tables are: their columns, indexes and triggers.
func shape(t *testing.T, server *postgrestest.Server, database string) string {
	t.Helper()
	conn, err := server.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), `
		SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable FROM information_schema.columns WHERE table_schema = 'kimbap'
		UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'kimbap'
		UNION ALL SELECT tgname || ' of ' || CAST(tgrelid::regclass AS text) FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(all) < 50 {
		t.Fatal(len(all), err)
	}
	return strings.Join(all, "\n")
}

// A process that was there before a newer kimbap changed the tables says that.
func TestTablesThatWereBroughtUpToDateMeanwhile(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	line, name := server.Line(t), server.Database(t)
	db := opened(t, line.DSN(name), true)
	server.Exec(t, name, "ALTER TABLE kimbap.limits RENAME TO bounds")
	take := func() *runtime.Error {
		return runtime.AsError(db.ChangeLimit(t.Context(), "a", func(full time.Time) time.Time { return full.Add(time.Second) }))
	}
	if e := take(); !strings.Contains(e.Msg, "tables of kimbap are missing") {
		t.Errorf("tables that somebody else changed: %q", e.Msg)
	}
	server.Exec(t, name, "INSERT INTO kimbap.schema_version (version) VALUES (999)")
	if e := take(); !strings.Contains(e.Msg, "to schema version 999") || !strings.Contains(e.Hint, "start the newer one") || e.Reason != runtime.ReasonStorageUnavailable {
		t.Errorf("tables of a newer one: %q, %q, %q", e.Msg, e.Hint, e.Reason)
	}
}
