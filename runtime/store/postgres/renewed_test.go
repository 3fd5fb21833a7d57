//go:build unix

package postgres

import (
	"context"
	"io"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/store/postgres/postgrestest"
	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

// A caller who leaves in the middle of a question costs the others no connection; one that is
// found broken ends them all.
func TestWhoLeavesEndsNoConnectionsOfOthers(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	db, err := Open(t.Context(), Options{DSN: server.Line(t).DSN(server.Database(t)), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	connection := func() (pid int) {
		err := db.query(t.Context(), "look", "SELECT pg_backend_pid()", nil, func(r tables.Row) error { return r.Scan(&pid) })
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	before := connection()
	if _ = db.renewed(left, unbegun{io.ErrUnexpectedEOF}); connection() != before {
		t.Error("who left has ended a connection")
	}
	if _ = db.renewed(t.Context(), unbegun{io.ErrUnexpectedEOF}); connection() == before {
		t.Error("a connection that was kept beside a broken one is used on")
	}
}
