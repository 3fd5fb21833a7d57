package app_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// statements executes SQL in a home's database, behind the back of whatever runs over it, on
// one connection.
func statements(t *testing.T, k *apptest.Kimbap) (exec func(statement string)) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(k.Dir, "kimbap.db")+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	return func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}
