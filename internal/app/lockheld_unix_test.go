//go:build unix

package app_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/holder"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// A required sink that takes nothing of the short commands any more, while it takes what the
// proxy has, hinders no lock: the vault is closed, the owner hears what is wrong, and the
// ledger has the record.
func TestASinkThatRefusesHindersNoLock(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]time.Duration{"until unlock": 0, "a pause": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuses := make(chan struct{})
			place := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				select {
				case <-refuses:
					if r.Header.Get("Kimbap-Audit-Slot") == app.SlotCLI {
						w.WriteHeader(http.StatusBadRequest)
					}
				default:
				}
			}))
			t.Cleanup(place.Close)
			k := apptest.New(t, apptest.Options{Config: "audit: {sinks: [{type: webhook, url: \"" + place.URL + "\", mode: required}]}\n"})
			withPin(t, storeless(t, k))
			if a := k.Do(t, "GET https://"+apptest.Host+"/notes/1", ""); a.Status != http.StatusOK {
				t.Fatalf("%d %+v", a.Status, a.Problem)
			}
			close(refuses)
			a := storeless(t, k)
			if _, _, err := a.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Scopes: []string{"*"}, TTL: time.Hour}); runtime.CodeOf(err) != runtime.CodeAuditUnavailable {
				t.Fatalf("what gives a right: %v", err)
			}
			if s, err := a.Status(t.Context()); err != nil || len(s.Lacks) != 1 || s.Lacks[0].Slot != app.SlotCLI || s.Lacks[0].Records == 0 || !strings.HasPrefix(s.Lacks[0].Sink, "webhook:") {
				t.Errorf("status says that sinks lack %+v, %v", s.Lacks, err)
			}
			done, err := a.LockVault(t.Context(), length)
			if e := runtime.AsError(err); err == nil || e.Code != runtime.CodeAuditUnavailable || !strings.Contains(e.Msg, "is locked") || done.Sealed != (length == 0) {
				t.Errorf("%+v, %v", done, err)
			}
			apptest.Within(t, soon, "the lock", func() bool { why := k.App.Locked(); return why != nil && why.Reason == runtime.ReasonLocked })
			_ = a.Close()
			if !strings.Contains(ledger(t, k), `"event":"vault.lock"`) {
				t.Error("the ledger does not say so")
			}
		})
	}
}

// A lock is in force before a required sink that hangs has been waited for.
func TestALockWaitsForNoSink(t *testing.T) {
	t.Parallel()
	hangs, end := make(chan struct{}), make(chan struct{})
	place := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-hangs:
			if r.Header.Get("Kimbap-Audit-Slot") == app.SlotCLI {
				<-end
			}
		default:
		}
	}))
	t.Cleanup(place.Close)
	k := apptest.New(t, apptest.Options{Config: "audit: {sinks: [{type: webhook, url: \"" + place.URL + "\", mode: required}]}\n"})
	withPin(t, storeless(t, k))
	a := storeless(t, k)
	close(hangs)
	defer close(end)
	done := make(chan error, 1)
	go func() {
		_, err := a.LockVault(t.Context(), 0)
		done <- err
	}()
	apptest.Within(t, soon, "the lock", func() bool { return k.App.Locked() != nil })
	select {
	case err := <-done:
		t.Fatalf("it waited for the sink: %v", err)
	default:
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "is locked") {
		t.Errorf("%v", err)
	}
}

// A command that keeps its turn at the trail, as one that was stopped or waits for a sink that
// hangs, keeps nobody from locking, nor from asking how things are. The lock is recorded when
// its turn comes.
func TestWhoKeepsTheTrailHindersNoLock(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	held, err := holder.Open(filepath.Join(k.Dir, "audit"), app.SlotCLI)
	if err == nil {
		err = held.Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	a := storeless(t, k)
	if s, err := a.Status(t.Context()); err != nil || s.Audit != "ok" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := a.LockVault(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), "is locked") {
		t.Errorf("%v", err)
	}
	apptest.Within(t, soon, "the lock", func() bool { why := k.App.Locked(); return why != nil && why.Reason == runtime.ReasonLocked })
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	_ = a.Close()
	if !strings.Contains(ledger(t, k), `"event":"vault.lock"`) {
		t.Error("the ledger does not say so")
	}
}

// A pause that was kept while the store was away does not hide that another machine has
// locked the vault for good: no further pause opens it without the PIN.
func TestAKeptPauseHidesNoLongerLock(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	a := k.Open(t, "")
	unlock, err := a.Home().LockKeys(t.Context(), time.Minute) // who serves cannot put the two together yet
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Vault().SetLock(t.Context(), "uid:0", 0); err != nil { // as from another machine: nothing is sealed here
		t.Fatal(err)
	}
	now := time.Now().UTC()
	text, err := json.Marshal(vault.Lock{Since: now, Until: now.Add(time.Minute), By: "uid:0"})
	if err != nil {
		t.Fatal(err)
	}
	k.Write(t, "locked.json", string(text))
	locked := make(chan error)
	go func() {
		_, err := a.LockVault(t.Context(), time.Hour)
		locked <- err
	}()
	unlock()
	if err := <-locked; runtime.CodeOf(err) != runtime.CodeInvalidInput {
		t.Errorf("a pause of what is locked for good: %v", err)
	}
	if l, in, err := a.Vault().Ordered(t.Context()); err != nil || !in || !l.Until.IsZero() {
		t.Errorf("the lock is %+v, %v, %v", l, in, err)
	}
}

// A store that somebody keeps from being written, or that was damaged, keeps nobody from
// locking: what runs may still read it.
func TestAStoreThatTakesNothingHindersNoLock(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(t *testing.T, path string) (mend func() error){
		"held": func(t *testing.T, path string) func() error {
			db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(20000)")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			db.SetMaxOpenConns(1)
			if _, err := db.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
				t.Fatal(err)
			}
			return func() error { _, err := db.ExecContext(t.Context(), "ROLLBACK"); return err }
		},
		"damaged": func(t *testing.T, path string) func() error {
			if err := errors.Join(os.Rename(path, path+".away"), os.WriteFile(path, []byte(strings.Repeat("no database ", 999)), 0o600)); err != nil {
				t.Fatal(err)
			}
			return func() error { return os.Rename(path+".away", path) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := apptest.New(t, apptest.Options{})
			withPin(t, k.App)
			mend := harm(t, filepath.Join(k.Dir, "kimbap.db"))
			a := storeless(t, k)
			done, err := a.LockVault(t.Context(), 0)
			if e := runtime.AsError(err); err == nil || !done.Here || done.Sealed || !strings.Contains(e.Msg, "not sealed") {
				t.Errorf("%+v, %v", done, err)
			}
			apptest.Followed(t, a)
			if why := k.App.Locked(); why == nil || why.Reason != runtime.ReasonLocked {
				t.Errorf("what runs has its keys: %v", why)
			}
			_ = a.Close()
			if err := mend(); err != nil {
				t.Fatal(err)
			}
			apptest.Within(t, soon, "an end of the file", func() bool { return !keptLockOf(k) })
			if l, in, err := k.App.Vault().Ordered(t.Context()); err != nil || !in || !l.Until.IsZero() {
				t.Errorf("the lock is %+v, %v, %v", l, in, err)
			}
			if err := storeless(t, k).UnlockVault(t.Context(), runtime.NewSecret(pin)); err != nil {
				t.Fatal(err)
			}
			apptest.Within(t, soon, "the open vault", func() bool { return k.App.Locked() == nil })
		})
	}
}
