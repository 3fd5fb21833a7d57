package app_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// What a provider gave while the vault was locked is stored as soon as that is open, and not at the
// next attempt: here the clock stands still, and there is none.
func TestAGrantThatCameDuringALockIsStoredAtOnce(t *testing.T) {
	t.Parallel()
	p := &provider{}
	routes := p.routes()
	give, asked, answer := routes["/oauth/token"], make(chan struct{}), make(chan struct{})
	var hold atomic.Bool
	routes["/oauth/token"] = func(c *servicestest.Conn, r *servicestest.Request) bool {
		if hold.Load() {
			asked <- struct{}{}
			<-answer
		}
		return give(c, r)
	}
	begin := time.Now()
	var now atomic.Pointer[time.Time]
	now.Store(&begin)
	k := apptest.New(t, apptest.Options{
		Services: []string{apptest.Notes, mailService}, Resolve: []string{"mail.notes.test:443", "login.notes.test:443"},
		Upstream: servicestest.Options{Routes: routes}, Clock: func() time.Time { return *now.Load() },
	})
	owner := k.Open(t, "")
	signIn(t, owner, public, false)
	read := func() apptest.Answer { return k.Do(t, "GET https://mail.notes.test/inbox", "") }
	apptest.Eventually(t, "the key is taken up", func() bool { return read().Status == http.StatusOK })
	version := func() int {
		list, err := owner.Secrets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range list {
			if one.Name == "mail.token" {
				return one.Version
			}
		}
		return 0
	}
	first := version()
	hold.Store(true)
	later := begin.Add(2 * time.Hour)
	now.Store(&later)
	var client sync.WaitGroup
	client.Go(func() { // which the lock cuts off
		if res, err := k.Client(t, "").Get("https://mail.notes.test/inbox"); err == nil {
			_ = res.Body.Close()
		}
	})
	<-asked
	if _, err := owner.LockVault(t.Context(), 8*time.Hour); err != nil {
		t.Fatal(err)
	}
	apptest.Eventually(t, "the lock", func() bool { return k.App.Locked() != nil })
	close(answer)
	client.Wait()
	unlock, err := app.LockGrant(t.Context(), k.App, "mail.token") // whoever renewed it insists on storing it until then
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if got := version(); got != first {
		t.Fatalf("version %d is stored while the vault is locked, after %d", got, first)
	}
	if err := owner.UnlockVault(t.Context(), runtime.Secret{}); err != nil {
		t.Fatal(err)
	}
	apptest.Eventually(t, "the grant is stored", func() bool { return version() == first+1 })
}
