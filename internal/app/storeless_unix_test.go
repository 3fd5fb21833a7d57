//go:build unix

package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// storeless opens a home for a command that can do something without the store.
func storeless(t *testing.T, k *apptest.Kimbap) *app.App {
	t.Helper()
	o := apptest.OptionsOver(k.Dir, "", k.Log, false)
	o.Despite, o.Emergency, o.StartLocked, o.Storeless = true, true, true, true
	return apptest.OpenWith(t, o)
}

// keptLockOf reports whether a home keeps a lock that the store could not be given.
func keptLockOf(k *apptest.Kimbap) bool {
	_, err := os.Lstat(filepath.Join(k.Dir, "locked.json"))
	return err == nil
}

// A home that is opened without its store decides nothing.
func TestNothingIsDecidedWithoutTheStore(t *testing.T) {
	t.Parallel()
	k, _, line, _ := sharing(t, apptest.Options{Policy: askWrites})
	id := k.Do(t, write, `{"text":"a"}`).Problem.Approval
	seen := len(k.Up.Requests())
	line.Cut()
	for name, ask := range decisionsBy(t, storeless(t, k), id) {
		if e := runtime.AsError(ask()); e == nil || e.Reason != runtime.ReasonStorageUnavailable {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if n := len(k.Up.Requests()); n != seen {
		t.Errorf("%d requests left", n-seen)
	}
	line.Mend()
	if list, err := k.Open(t, "").ListApprovals(t.Context(), true); err != nil || len(list) != 1 || list[0].State != "pending" {
		t.Errorf("afterwards: %+v, %v", list, err)
	}
	for name, ask := range decisionsBy(t, k.Open(t, ""), id) {
		if err := ask(); err != nil {
			t.Errorf("%s: refused with the store too: %v", name, err)
		}
	}
}

// decisionsBy are calls of each kind that needs the store; id is of a request that waits.
func decisionsBy(t *testing.T, a *app.App, id string) map[string]func() error {
	return map[string]func() error{
		"a call": func() error {
			return a.Pipeline().Do(t.Context(), &runtime.Request{
				Surface: runtime.SurfaceCall, Caller: a.Local(), Action: "notes.get-note", Unattended: true, Args: runtime.Args{"id": 1},
			}, &app.Answer{})
		},
		"a token": func() error {
			_, _, err := a.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Scopes: []string{"*"}, TTL: time.Hour})
			return err
		},
		"a credential": func() error {
			_, _, err := a.SetSecret(t.Context(), apptest.Secret, runtime.NewSecret("sk-live-newer-5d0c"), app.SecretOptions{})
			return err
		},
		"a yes":      func() error { _, err := a.Accept(t.Context(), id, app.Yes{}); return err },
		"an unlock":  func() error { return a.UnlockVault(t.Context(), runtime.Secret{}) },
		"a tenant":   func() error { return a.CreateTenant(t.Context(), "acme", false) },
		"an end":     func() error { _, err := a.Approvals().Sweep(t.Context(), runtime.DefaultTenant); return err },
		"a new root": func() error { _, err := a.CA(t.Context()); return err },
	}
}

// While the database does not answer a lock closes what runs over this home, says what it
// does not reach, holds when the database is back, and holds for the other home then. So it
// does where every record wants the database.
func TestALockWithoutTheStore(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]time.Duration{"until unlock": 0, "a pause": 8 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := apptest.Options{Config: "audit: {durability: store}\n"}
			one, server, line, dsn := sharing(t, o)
			open := server.Line(t) // the other home's, which is not cut
			two := joining(t, one, open.DSN(dsn[strings.LastIndexByte(dsn, '/')+1:]), apptest.Options{})
			if err := one.Open(t, "").SetPin(t.Context(), app.NewPin{PIN: runtime.NewSecret(pin)}); err != nil {
				t.Fatal(err)
			}
			get := "GET https://" + apptest.Host + "/notes/1"
			line.Cut()
			a := storeless(t, one)
			done, err := a.LockVault(t.Context(), length)
			if e := runtime.AsError(err); err == nil || !done.Here || done.Sealed || e.Reason != runtime.ReasonStorageUnavailable ||
				!strings.Contains(e.Msg, "for no other machine yet") || strings.Contains(e.Msg, "not sealed") != (length == 0) {
				t.Fatalf("%+v, %v", done, err)
			}
			apptest.Followed(t, a)
			if why := one.App.Locked(); why == nil || why.Reason != runtime.ReasonLocked || !one.App.Vault().Locked() {
				t.Errorf("what runs has its keys: %v", why)
			}
			if a := two.Do(t, get, ""); a.Status != 200 {
				t.Errorf("the other home: %d %+v", a.Status, a.Problem)
			}
			if length == 0 { // a pause does not undo it
				before, _ := os.ReadFile(filepath.Join(one.Dir, "locked.json"))
				_, err := storeless(t, one).LockVault(t.Context(), time.Second)
				after, _ := os.ReadFile(filepath.Join(one.Dir, "locked.json"))
				if err == nil || len(before) == 0 || string(after) != string(before) {
					t.Errorf("a shorter one: %v, %s", err, after)
				}
			}
			seen := len(one.Up.Requests())
			line.Mend()
			apptest.Within(t, soon, "a lock of the other home", func() bool { return two.App.Locked() != nil })
			apptest.Within(t, soon, "an end of the file", func() bool { return !keptLockOf(one) })
			for _, k := range []*apptest.Kimbap{one, two} {
				apptest.Within(t, soon, "a refusal for the lock", func() bool { // not for the trail, which has to write what it has missed
					_, a := k.Connect(t, apptest.Authority)
					return a.Status == 503 && a.Problem.Code == "vault_locked" && a.Problem.Reason == "locked"
				})
			}
			if n := len(one.Up.Requests()); n != seen {
				t.Errorf("%d requests left", n-seen)
			}
			unlock := func(with string) error { return storeless(t, two).UnlockVault(t.Context(), runtime.NewSecret(with)) }
			if err := unlock("000000"); runtime.AsError(err).Reason != runtime.ReasonWrongPIN {
				t.Errorf("it opens without the PIN: %v", err)
			}
			if err := unlock(pin); err != nil {
				t.Fatal(err)
			}
			for _, k := range []*apptest.Kimbap{one, two} {
				apptest.Within(t, soon, "an open vault", func() bool { return k.App.Locked() == nil })
			}
			if keptLockOf(one) {
				t.Error("the file is back")
			}
			for _, event := range []string{`"event":"vault.lock"`, `"store":"not reached"`, `"store":"reached"`} {
				if !strings.Contains(ledger(t, one), event) {
					t.Errorf("no %s in the trail", event)
				}
			}
			if _, _, err := one.Open(t, "").CreateToken(t.Context(), app.TokenGrant{Agent: "a", Scopes: []string{"*"}, TTL: time.Hour}); err != nil { // the next to write where the lock was recorded
				t.Fatal(err)
			}
			kept := strings.Join(keptLines(t, server, dsn), "\n")
			for _, r := range one.Records(t) {
				if strings.Contains(r.Line, "vault.lock") && !strings.Contains(kept, r.Line) {
					t.Errorf("the database never got %s", r.Line)
				}
			}
		})
	}
}

// A lock that the store was not given holds for a process that starts later, whatever stands
// in its file, and an unlock ends it. One that has ended by itself does not.
func TestAKeptLockHolds(t *testing.T) {
	t.Parallel()
	k, _, _, _ := sharing(t, apptest.Options{})
	person := k.Open(t, "")
	for _, text := range []string{"", "{", `{"Since":"2026-01-01T00:00:00Z","By":"uid:0"}`} {
		k.Write(t, "locked.json", text)
		apptest.Within(t, soon, "the lock", func() bool { return k.App.Locked() != nil })
		refusedLocked(t, k)
		if err := person.UnlockVault(t.Context(), runtime.Secret{}); err != nil {
			t.Fatal(err)
		}
		apptest.Within(t, soon, "the open vault", func() bool { return k.App.Locked() == nil })
	}
	k.Write(t, "locked.json", `{"Since":"2026-01-01T00:00:00Z","By":"uid:0","Until":"2026-01-01T00:00:01Z"}`)
	apptest.Within(t, soon, "an end of the file", func() bool { return !keptLockOf(k) })
	if why := k.App.Locked(); why != nil {
		t.Errorf("locked by what has ended: %v", why)
	}
}
