package app_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// pin is the owner's, in tests.
const pin = "471108"

// withPin gives the owner a PIN.
func withPin(t *testing.T, person *app.App) {
	t.Helper()
	if err := person.SetPin(t.Context(), app.NewPin{PIN: runtime.NewSecret(pin)}); err != nil {
		t.Fatal(err)
	}
}

// lockUp locks the vault for good.
func lockUp(t *testing.T, person *app.App) app.Locking {
	t.Helper()
	done, err := person.LockVault(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// An operator's lock closes the vault of a running proxy within a second, and the
// tunnels to hosts of services that are open, also one that rests, and nothing else;
// it stays for processes to come, and unlock opens all of them again without a restart.
// A lock that a process could not read when it came is taken up as soon as it can.
func TestALockIsNotLostWithAReadThatFails(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	if a := k.Do(t, "GET https://"+apptest.Host+"/notes/1", ""); a.Status != http.StatusOK {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	exec := statements(t, k)
	exec("BEGIN; UPDATE vault SET locked = 1700000000000000, locked_by = 'local:1'; ALTER TABLE vault RENAME TO away; COMMIT")
	time.Sleep(time.Second) // four looks at a store whose vault cannot be read
	exec("ALTER TABLE away RENAME TO vault")
	apptest.Within(t, soon, "the lock", func() bool { return k.App.Locked() != nil })
}

// A lock ends every run, also one of a tenant that only another home has which shares the store.
func TestALockEndsTheRunsOfTenantsWithoutAFolderHere(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	person := k.Open(t, "")
	withPin(t, person)
	if err := person.CreateTenant(t.Context(), "acme", false); err != nil {
		t.Fatal(err)
	}
	there := k.OpenAs(t, "acme")
	_, info, err := there.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Run: "run_1", Scopes: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(k.Dir, "tenants", "acme")); err != nil {
		t.Fatal(err)
	}
	if done := lockUp(t, person); done.Runs != 1 {
		t.Errorf("%d runs were ended", done.Runs)
	}
	list, err := there.ListTokens(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != info.ID || list[0].Revoked.IsZero() {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestLockReachesRunningProxies(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Resolve: []string{otherHost}})
	person := k.Open(t, "")
	withPin(t, person)
	open, other := k.Tunnel(t, apptest.Authority), k.Tunnel(t, otherHost)
	if a := open.Ask(getNote); a.Status != http.StatusOK {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	if done := lockUp(t, person); !done.Sealed {
		t.Error("the master key is not sealed")
	}
	_ = open.SetReadDeadline(time.Now().Add(soon))
	if n, err := open.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the tunnel that rests is still open: %v", err)
	}
	sent := len(k.Up.Requests())
	mark := k.Mark(t)
	_, a := k.Connect(t, apptest.Authority)
	if a.Status != http.StatusServiceUnavailable || a.Problem.Code != "vault_locked" || a.Problem.Reason != "locked" || !strings.Contains(a.Body, "locked by its owner") {
		t.Errorf("CONNECT: %d %+v", a.Status, a.Problem)
	}
	apptest.Eventually(t, "the record of the refusal", func() bool {
		return slices.ContainsFunc(k.Await(t, mark, 1), func(r apptest.Record) bool {
			return r.Short() == "refusal - - error vault_locked/locked"
		})
	})
	if n := len(k.Up.Requests()); n != sent {
		t.Errorf("%d requests were sent behind the lock", n-sent)
	}
	for _, tunnel := range []*apptest.Wire{other, k.Tunnel(t, otherHost)} {
		if a := tunnel.Ask("GET /notes/1 HTTP/1.1\r\nHost: other.test\r\n\r\n"); a.Status != http.StatusOK {
			t.Errorf("another host: %d %+v", a.Status, a.Problem)
		}
	}
	call := func() error {
		return k.App.Pipeline().Do(t.Context(), &runtime.Request{
			Surface: runtime.SurfaceCall, Caller: k.App.Local(), Action: "notes.get-note", Unattended: true, Args: runtime.Args{"id": 1},
		}, &app.Answer{})
	}
	if e := runtime.AsError(call()); e.Reason != runtime.ReasonLocked {
		t.Errorf("a call: %v", e)
	}

	late := k.Open(t, "late") // a process that starts meanwhile
	if why := late.Locked(); why == nil || why.Reason != runtime.ReasonLocked || why.Hint != "kimbap unlock" || !strings.Contains(why.Msg, "sealed under the PIN") {
		t.Errorf("a new process: %v", why)
	}
	refusedLocked(t, k)

	if err := person.UnlockVault(t.Context(), runtime.NewSecret(pin)); err != nil {
		t.Fatal(err)
	}
	apptest.Within(t, soon, "the open vault", func() bool { return k.App.Locked() == nil })
	if a := k.Tunnel(t, apptest.Authority).Ask(getNote); a.Status != http.StatusOK {
		t.Errorf("after unlock: %d %+v", a.Status, a.Problem)
	}
	trail := ledger(t, k)
	for _, event := range []string{`"event":"vault.lock"`, `"event":"vault.locked"`, `"event":"vault.unlock"`} {
		if !strings.Contains(trail, event) {
			t.Errorf("no %s in the trail", event)
		}
	}
	k.Verify(t)
}

// refusedLocked opens the home for a command that needs the key.
func refusedLocked(t *testing.T, k *apptest.Kimbap) {
	t.Helper()
	a, err := app.New(apptest.OptionsOver(k.Dir, "", k.Log, false))
	if err != nil {
		t.Fatal(err)
	}
	if e := runtime.AsError(a.Open(t.Context())); e == nil || e.Reason != runtime.ReasonLocked || e.Hint != "kimbap unlock" {
		t.Errorf("a command that needs the key: %v", e)
	}
}

// Under load the master key and the tenant's key are rotated again and again: no
// request fails, and each carries the credential.
func TestRotationsUnderLoad(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	person := k.Open(t, "")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			tunnel := k.Tunnel(t, apptest.Authority)
			for {
				select {
				case <-stop:
					return
				default:
				}
				if a := tunnel.Ask(getNote); a.Status != http.StatusOK {
					t.Errorf("%d %+v", a.Status, a.Problem)
					return
				}
			}
		})
	}
	asked := func() int { return len(k.Up.Requests()) }
	for range 5 {
		if _, err := person.RotateMasterKey(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := person.RotateTenantKey(t.Context()); err != nil {
			t.Error(err)
		}
		before := asked()
		apptest.Eventually(t, "requests after a rotation", func() bool {
			stale, err := k.App.Vault().Stale(t.Context())
			return err == nil && !stale && asked() > before+20
		})
	}
	close(stop)
	wg.Wait()
	for _, r := range k.Up.Requests() {
		if r.Header.Get("Authorization") != "Bearer "+apptest.Key {
			t.Fatalf("the upstream got %q", r.Header.Get("Authorization"))
		}
	}
	if k.App.Locked() != nil {
		t.Error(k.App.Locked())
	}
}

// openerOver opens the home of k for slots, "" for a person, with an environment.
func openerOver(t *testing.T, k *apptest.Kimbap) func(slot string, env ...string) *app.App {
	return func(slot string, env ...string) *app.App {
		t.Helper()
		o := apptest.OptionsOver(k.Dir, slot, k.Log, true)
		o.Env, o.StartLocked = env, slot != ""
		return apptest.OpenWith(t, o)
	}
}

// What happens between the opening of a home and the first look of who serves it is
// not missed.
func TestARotationBeforeTheFirstLookIsSeen(t *testing.T) {
	t.Parallel()
	first, second := strings.Repeat("a1", 32), strings.Repeat("b2", 32)
	k := &apptest.Kimbap{Dir: t.TempDir() + "/home", Log: &apptest.Buffer{}}
	with := openerOver(t, k)
	person := with("", "KIMBAP_MASTER_KEY="+first, "KIMBAP_MASTER_KEY_NEXT="+second)
	lacks := with("lacks", "KIMBAP_MASTER_KEY="+first)
	if _, err := person.RotateMasterKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.Serve(t, lacks, app.ServeOptions{Listen: "127.0.0.1:0"})
	apptest.Within(t, soon, "the lock", func() bool { why := lacks.Locked(); return why != nil && why.Reason == runtime.ReasonWrongMasterKey })
}

// A rotation whose new key a proxy cannot find locks that proxy, which says why:
// it does not go on with a key that is not in force.
func TestAProxyWithoutTheNewKeyLocks(t *testing.T) {
	t.Parallel()
	first, second := strings.Repeat("a1", 32), strings.Repeat("b2", 32)
	k := &apptest.Kimbap{Dir: t.TempDir() + "/home", Log: &apptest.Buffer{}}
	with := openerOver(t, k)
	person := with("", "KIMBAP_MASTER_KEY="+first, "KIMBAP_MASTER_KEY_NEXT="+second)
	knows := with("knows", "KIMBAP_MASTER_KEY="+first, "KIMBAP_MASTER_KEY_NEXT="+second)
	lacks := with("lacks", "KIMBAP_MASTER_KEY="+first)
	k.Serve(t, knows, app.ServeOptions{Listen: "127.0.0.1:0"})
	k.Serve(t, lacks, app.ServeOptions{Listen: "127.0.0.1:0"})
	if _, err := person.RotateMasterKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	apptest.Within(t, soon, "the lock", func() bool { why := lacks.Locked(); return why != nil && why.Reason == runtime.ReasonWrongMasterKey })
	if stale, err := knows.Vault().Stale(t.Context()); err != nil || knows.Locked() != nil {
		t.Error(fmt.Sprint("the other one: ", stale, err, knows.Locked()))
	}
}

// A run that begins while a lock ends the others is ended too.
func TestALockEndsTheRunThatBeganMeanwhile(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	other := k.Open(t, "other")
	begin := func(run string) {
		if _, _, err := other.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Run: run, Scopes: []string{"*"}, TTL: time.Hour}); err != nil {
			t.Error(err)
		}
	}
	withPin(t, k.Open(t, ""))
	begin("run_1")
	o := apptest.OptionsOver(k.Dir, "person", k.Log, false)
	var locking, begun atomic.Bool
	var looking sync.Mutex // several goroutines ask for the time
	o.Clock = func() time.Time {
		if locking.Load() && !begun.Load() {
			looking.Lock()
			defer looking.Unlock()
			if begun.Load() {
				return time.Now()
			}
			if list, err := other.ListTokens(t.Context()); err == nil && !list[0].Revoked.IsZero() {
				begun.Store(true)
				begin("run_2")
			}
		}
		return time.Now()
	}
	person := apptest.OpenWith(t, o)
	locking.Store(true)
	if done := lockUp(t, person); done.Runs != 2 || !begun.Load() {
		t.Errorf("%d runs were ended; a second one began: %t", done.Runs, begun.Load())
	}
	locking.Store(false)
	list, err := other.ListTokens(t.Context())
	if err != nil || len(list) != 2 || list[0].Revoked.IsZero() || list[1].Revoked.IsZero() {
		t.Errorf("%+v, %v", list, err)
	}
}
