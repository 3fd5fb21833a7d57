package app_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// unopened is an App over a home, not opened.
func unopened(t *testing.T, k *apptest.Kimbap) *app.App {
	t.Helper()
	a, err := app.New(apptest.OptionsOver(k.Dir, "", k.Log, false))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// restored is a home whose database was put back as it was before do.
func restored(t *testing.T, do func(a *app.App, token string)) (k *apptest.Kimbap, token string) {
	t.Helper()
	k = &apptest.Kimbap{Dir: filepath.Join(t.TempDir(), "home"), Log: &apptest.Buffer{}}
	a := k.Make(t)
	_, minted, err := a.CreateToken(t.Context(), app.TokenGrant{Agent: "ci", Scopes: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "before.db")
	if _, err := unopened(t, k).Databases().Copy(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	do(a, minted.ID)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"-wal", "-shm"} {
		_ = os.Remove(filepath.Join(k.Dir, "kimbap.db"+part))
	}
	k.Write(t, "kimbap.db", string(text))
	return k, minted.ID
}

// A backup of the database makes valid again what was revoked since. The trail knows that it
// was, so doctor names it.
func TestDoctorNamesWhatABackupMadeValidAgain(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	for name, c := range map[string]struct {
		do    func(a *app.App, token string)
		valid bool
	}{
		"one":     {func(a *app.App, token string) { _, err := a.RevokeToken(t.Context(), token); must(err) }, true},
		"all":     {func(a *app.App, _ string) { _, err := a.RevokeTokens(t.Context()); must(err) }, true},
		"another": {func(a *app.App, token string) { _, err := a.RevokeToken(t.Context(), token+"x"); must(err) }, false},
		"one that failed": {func(a *app.App, token string) {
			must(a.Trail().Event(t.Context(), record.Event{Kind: "token.revoke", Fields: map[string]string{"token": token}}))
			must(a.Trail().Event(t.Context(), record.Event{Kind: "token.revoke", Fields: map[string]string{"token": token, "result": "storage_busy"}}))
		}, false},
		"one that failed first": {func(a *app.App, token string) {
			must(a.Trail().Event(t.Context(), record.Event{Kind: "token.revoke", Fields: map[string]string{"token": token}}))
			must(a.Trail().Event(t.Context(), record.Event{Kind: "token.revoke", Fields: map[string]string{"token": token, "result": "storage_busy"}}))
			_, err := a.RevokeToken(t.Context(), token)
			must(err)
		}, true},
		"one, again": {func(a *app.App, token string) {
			for range 2 {
				_, err := a.RevokeToken(t.Context(), token)
				must(err)
			}
		}, true},
		"one that failed when it was done": {func(a *app.App, token string) {
			_, err := a.RevokeToken(t.Context(), token)
			must(err)
			must(a.Trail().Event(t.Context(), record.Event{Kind: "token.revoke", Fields: map[string]string{"token": token, "result": "storage_busy"}}))
			_, err = a.RevokeToken(t.Context(), token)
			must(err)
		}, true},
		"all, of which some failed": {func(a *app.App, _ string) {
			must(a.Trail().Event(t.Context(), record.Event{Kind: "token.revoke_all", Principal: "local:0"}))
			must(a.Trail().Event(t.Context(), record.Event{Kind: "token.revoke_all", Principal: "local:0", Fields: map[string]string{"result": "storage_busy", "revoked": "1"}}))
		}, true},
		"all, which failed for one of two": {func(a *app.App, _ string) {
			must(a.Trail().Event(t.Context(), record.Event{Kind: "token.revoke_all", Principal: "local:0"}))
			must(a.Trail().Event(t.Context(), record.Event{Kind: "token.revoke_all", Principal: "local:1"}))
			must(a.Trail().Event(t.Context(), record.Event{Kind: "token.revoke_all", Principal: "local:1", Fields: map[string]string{"result": "storage_busy"}}))
		}, true},
		"nothing": {func(*app.App, string) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, token := restored(t, c.do)
			tokens := func(a *app.App) (said *app.Finding) {
				for _, f := range a.Doctor(t.Context()) {
					if f.Check == "tokens" {
						said = &f
					}
				}
				return said
			}
			a := k.Open(t, "")
			said := tokens(a)
			if (said != nil) != c.valid {
				t.Fatalf("said %+v", said)
			}
			if said == nil {
				return
			}
			if said.State != "fail" || !strings.Contains(said.Said, token) || said.Fix != "kimbap token revoke "+token {
				t.Errorf("%+v", said)
			}
			if _, err := a.RevokeToken(t.Context(), token); err != nil {
				t.Fatal(err)
			}
			if _, _, err := a.CreateToken(t.Context(), app.TokenGrant{Agent: "new", Scopes: []string{"*"}, TTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
			if said := tokens(a); said != nil {
				t.Errorf("revoked again, and %+v", said)
			}
		})
	}
}

// A revocation that came to nothing, since the store took nothing, says nothing of the database,
// whatever revokes.
func TestDoctorKnowsWhatWasNotRevoked(t *testing.T) {
	t.Parallel()
	for name, revoke := range map[string]func(a *app.App) error{
		"all":    func(a *app.App) error { _, err := a.RevokeTokens(t.Context()); return err },
		"a lock": func(a *app.App) error { _, err := a.LockVault(t.Context(), 0); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &apptest.Kimbap{Dir: filepath.Join(t.TempDir(), "home"), Log: &apptest.Buffer{}}
			a := k.Make(t)
			t.Cleanup(func() { _ = a.Close() })
			withPin(t, a)
			_, minted, err := a.CreateToken(t.Context(), app.TokenGrant{Agent: "ci", Run: "run_1", Scopes: []string{"*"}, TTL: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open("sqlite", filepath.Join(k.Dir, "kimbap.db")+"?_pragma=busy_timeout(20000)")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			db.SetMaxOpenConns(1)
			if _, err := db.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
				t.Fatal(err)
			}
			if err := revoke(a); err == nil {
				t.Fatal("it was revoked")
			}
			if _, err := db.ExecContext(t.Context(), "ROLLBACK"); err != nil {
				t.Fatal(err)
			}
			for _, f := range a.Doctor(t.Context()) {
				if f.Check == "tokens" {
					t.Errorf("of %s: %+v", minted.ID, f)
				}
			}
		})
	}
}
