//go:build unix

package app_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/store/postgres"
	"github.com/kimbap-run/kimbap/runtime/store/postgres/postgrestest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// kept makes a home with something of everything that is stored, over which nothing runs.
func kept(t *testing.T) (k *apptest.Kimbap, approvalID, tokenID string) {
	t.Helper()
	o := apptest.Options{Services: []string{apptest.Notes}, Policy: askWrites}
	k = &apptest.Kimbap{
		Dir: filepath.Join(t.TempDir(), "home"), Log: &apptest.Buffer{},
		Up: servicestest.New(t, servicestest.Options{Hosts: []string{apptest.Host}}),
	}
	k.Furnish(t, o)
	t.Run("use it", func(t *testing.T) { // with a proxy that ends with this
		a := k.Open(t, "proxy")
		k.Proxy = k.Serve(t, a, app.ServeOptions{Listen: "127.0.0.1:0", State: true})
		_, minted, err := a.CreateToken(t.Context(), app.TokenGrant{Agent: "claude", Scopes: []string{"*"}, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		approvalID, tokenID = k.Do(t, write, `{"text":"kept"}`).Problem.Approval, minted.ID
		if _, err := a.Accept(t.Context(), approvalID, app.Yes{For: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if answer := k.Do(t, write, `{"text":"kept"}`); answer.Status != 200 {
			t.Fatalf("%d %+v", answer.Status, answer.Problem)
		}
	})
	return k, approvalID, tokenID
}

// configured gives a home a store, and returns what its configuration was.
func configured(t *testing.T, k *apptest.Kimbap, dsn string) string {
	t.Helper()
	before, err := os.ReadFile(filepath.Join(k.Dir, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	k.Write(t, "config.yaml", string(before)+fmt.Sprintf("store: {dsn: %q}\n", dsn))
	return string(before)
}

// What a home stores is moved whole to a database that homes share, is not in the home any
// more, and works from there. A home that has lost the way to it is not taken for a new one.
func TestAStoreIsMoved(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	line := server.Line(t)
	k, approved, token := kept(t)
	t.Run("not while a proxy runs", func(t *testing.T) {
		k.Serve(t, k.Open(t, "proxy"), app.ServeOptions{Listen: "127.0.0.1:0", State: true})
		without := configured(t, k, line.DSN(server.Database(t)))
		if _, err := unopened(t, k).Databases().Move(t.Context()); err == nil || !strings.Contains(err.Error(), "works with what is in the home") {
			t.Errorf("moved: %v", err)
		}
		k.Write(t, "config.yaml", without)
	})
	used := line.DSN(server.Database(t))
	without := configured(t, k, used)
	if err := unopened(t, k).Open(t.Context()); err == nil || !strings.HasSuffix(runtime.AsError(err).Hint, "kimbap db move") {
		t.Errorf("an empty database is taken for the store: %v", err)
	}
	done, err := unopened(t, k).Databases().Move(t.Context())
	if err != nil || done.Rows < 6 || strings.Contains(fmt.Sprint(done), postgrestest.Password) {
		t.Fatalf("%+v, %v", done, err)
	}

	if again, err := unopened(t, k).Databases().Move(t.Context()); err != nil || again.Rows != 0 || again.To != done.To {
		t.Errorf("moved once more: %+v, %v", again, err)
	}
	elsewhere := line.DSN(server.Database(t))
	k.Write(t, "config.yaml", without+fmt.Sprintf("store: {dsn: %q}\n", elsewhere))
	if again, err := unopened(t, k).Databases().Move(t.Context()); err != nil || again.Rows != 0 || again.To != done.To {
		t.Errorf("moved to an empty database: %+v, %v", again, err)
	}
	empty, err := postgres.Open(t.Context(), postgres.Options{DSN: elsewhere, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(empty.Close(), unopened(t, k).Open(t.Context())); err == nil || !strings.Contains(err.Error(), "was never used") {
		t.Errorf("a database that was never used has taken the place of the store: %v", err)
	}
	k.Write(t, "config.yaml", without+fmt.Sprintf("store: {dsn: %q}\n", used))

	a := k.Open(t, "")
	if list, err := a.ListTokens(t.Context()); err != nil || len(list) != 1 || list[0].ID != token {
		t.Errorf("tokens: %v, %v", list, err)
	}
	if list, err := a.ListApprovals(t.Context(), true); err != nil || len(list) != 1 || list[0].ID != approved || list[0].State != string(approval.Executed) {
		t.Errorf("approvals: %v, %v", list, err)
	}
	k.Proxy = k.Serve(t, k.Open(t, "proxy"), app.ServeOptions{Listen: "127.0.0.1:0", State: true})
	if answer := k.Do(t, write, `{"text":"kept"}`); answer.Status != 200 || k.Up.Last(t).Header.Get("Authorization") != "Bearer "+apptest.Key {
		t.Errorf("what a yes allows for an hour: %d %+v", answer.Status, answer.Problem)
	}

	k.Write(t, "config.yaml", without)
	if err := unopened(t, k).Open(t.Context()); err == nil || !strings.Contains(err.Error(), "store.dsn does not say how to get there") {
		t.Errorf("a home whose store is elsewhere was opened without it: %v", err)
	}
}

// A move to a database that has something already is refused, unless that is the same: a
// move that was cut short behind its first half is finished.
func TestAMoveIsRefusedOrFinished(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	line := server.Line(t)
	k, _, token := kept(t)
	backup, again := filepath.Join(t.TempDir(), "before.db"), filepath.Join(t.TempDir(), "before.db")
	for _, file := range []string{backup, again} {
		if _, err := unopened(t, k).Databases().Copy(t.Context(), file); err != nil {
			t.Fatal(err)
		}
	}
	used := line.DSN(server.Database(t))
	without := configured(t, k, used)
	if _, err := unopened(t, k).Databases().Move(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(backup, filepath.Join(k.Dir, "kimbap.db")); err != nil { // as if the second half had not been done
		t.Fatal(err)
	}
	done, err := unopened(t, k).Databases().Move(t.Context())
	if err != nil || done.Rows < 6 {
		t.Errorf("not finished: %+v, %v", done, err)
	}
	if list, err := k.Open(t, "").ListTokens(t.Context()); err != nil || len(list) != 1 || list[0].ID != token {
		t.Errorf("tokens: %v, %v", list, err)
	}

	// One that went on in its file since is not: what is new there would be lost.
	for name, changes := range map[string]func(a *app.App) error{
		"a credential that is newer": func(a *app.App) error {
			_, _, err := a.SetSecret(t.Context(), apptest.Secret, runtime.NewSecret("sk-live-newer-5d0c"), app.SecretOptions{})
			return err
		},
		"a credential that is removed": func(a *app.App) error { _, err := a.RemoveSecret(t.Context(), apptest.Secret); return err },
		"a token that is revoked":      func(a *app.App) error { _, err := a.RevokeToken(t.Context(), token); return err },
		"a token that is new": func(a *app.App) error {
			_, _, err := a.CreateToken(t.Context(), app.TokenGrant{Agent: "b", Scopes: []string{"*"}, TTL: time.Hour})
			return err
		},
	} {
		for _, part := range []string{"-wal", "-shm"} {
			_ = os.Remove(filepath.Join(k.Dir, "kimbap.db"+part))
		}
		text, err := os.ReadFile(again)
		if err != nil {
			t.Fatal(err)
		}
		with, err := os.ReadFile(filepath.Join(k.Dir, "config.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		k.Write(t, "kimbap.db", string(text))
		k.Write(t, "config.yaml", without)
		t.Run(name, func(t *testing.T) { // the home is closed with it
			if err := changes(k.Open(t, "")); err != nil {
				t.Fatal(err)
			}
		})
		k.Write(t, "config.yaml", string(with))
		if _, err := unopened(t, k).Databases().Move(t.Context()); err == nil || !strings.Contains(err.Error(), "went on in its file") {
			t.Errorf("%s: moved, %v", name, err)
		}
	}

	other, _, _ := kept(t)
	without = configured(t, other, used)
	if _, err := unopened(t, other).Databases().Move(t.Context()); err == nil || !strings.Contains(err.Error(), "in use by another home") {
		t.Errorf("two homes were put together: %v", err)
	}
	other.Write(t, "config.yaml", without)
	if list, err := other.Open(t, "").ListTokens(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("a refused move took %v, %v", list, err)
	}
}

// A new home that shares a store has the key of the others, or says what it needs.
func TestANewHomeThatSharesAStoreNeedsItsKey(t *testing.T) {
	t.Parallel()
	_, _, _, dsn := sharing(t, apptest.Options{})
	home := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	k := &apptest.Kimbap{Dir: home, Log: &apptest.Buffer{}}
	k.Write(t, "config.yaml", fmt.Sprintf("store: {dsn: %q}\n", dsn))
	a, err := app.New(apptest.OptionsOver(home, "", k.Log, true))
	if err != nil {
		t.Fatal(err)
	}
	err = a.Open(t.Context())
	e := runtime.AsError(err)
	if err == nil || e.Code != runtime.CodeVaultLocked || !strings.Contains(e.Msg, "sealed with that of the homes that share it") || !strings.Contains(e.Hint, home) {
		t.Errorf("%v: %+v", err, e)
	}
}
