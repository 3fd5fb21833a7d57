package app_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// A proxy that runs for weeks, and may be killed, shows what it has used while it runs.
func TestWhatAProxyUsesShowsWhileItRuns(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	if a := k.Do(t, "GET https://"+apptest.Host+"/notes/1", ""); a.Status != 200 {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	person := k.Open(t, "")
	apptest.Within(t, 20*time.Second, "the time of its last use", func() bool {
		stored, err := person.Vault().List(t.Context(), runtime.DefaultTenant)
		return err == nil && len(stored) == 1 && !stored[0].LastUsed.IsZero()
	})
}

// What was done was done, also where the time of the last use cannot be stored behind it: a
// command that ends with an error is run again.
func TestAUseThatCannotBeStoredIsNoError(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	a := k.Open(t, "")
	if _, err := a.Vault().Credential(t.Context(), runtime.DefaultTenant, &runtime.Auth{Type: runtime.AuthBearer, Ref: apptest.Secret}); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(k.Dir, "kimbap.db")+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Errorf("its end: %v", err)
	}
}
