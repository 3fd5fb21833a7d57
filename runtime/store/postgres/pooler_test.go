//go:build unix

package postgres

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/store/postgres/postgrestest"
	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

// A pooler may drop what a connection asks for. Tables are not made in whatever schema comes
// of that: nobody who connects directly would find them, and no backup of ours.
func TestTablesAreMadeInTheirOwnSchema(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	line, name := server.Line(t), server.Database(t)
	open := func(path string) error {
		config, err := configure(line.DSN(name))
		if err != nil {
			t.Fatal(err)
		}
		config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx, "SET search_path TO "+path)
			return err
		}
		db := &DB{name: "pooled", told: func(string) {}}
		db.wait.call, db.wait.glance = patience, glance
		db.Store = tables.New(engine{db})
		if db.pool, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		return db.prepare(t.Context(), true)
	}
	if err := open(`"$user", public`); err == nil || !strings.Contains(runtime.AsError(err).Msg, "would be made in public") {
		t.Errorf("made in another schema: %v", err)
	}
	if err := open(home); err != nil { // as ALTER ROLE says
		t.Errorf("with the schema: %v", err)
	}
}
