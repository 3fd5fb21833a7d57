package connector

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// unstored is a rig of a bubble whose renewed grant could not be stored for a minute, by when the
// lock of the grant was given up, and the vault that it stores into.
func unstored(t *testing.T) (*rig, *lockable) {
	t.Helper()
	r := inBubble(t)
	l := &lockable{shelf: r.s}
	r.o.Keeper = l
	time.Sleep(2 * time.Hour)
	r.s.fill(true)
	r.uses(t, "access-token-1")
	time.Sleep(time.Minute)
	if len(r.s.lock) > 0 {
		t.Fatal("the grant is still locked")
	}
	return r, l
}

// What could not be stored is stored soon after it can be, whether somebody asks for it or not: in
// another process the refresh token that was used would end the grant.
func TestWhatCouldNotBeStoredIsStoredUnasked(t *testing.T) {
	t.Parallel()
	t.Run("renewed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, _ := unstored(t)
			r.s.fill(false)
			time.Sleep(firstPause + time.Second)
			next := r.another(t)
			next.o.Clock, next.o.Client = r.o.Clock, r.o.Client
			if token, err := use(t, next); token != "access-token-1" || r.p.requests() != 1 || len(r.waiting()) > 0 {
				t.Errorf("another process gets %q: %v", token, err)
			}
		})
	})
	t.Run("at its end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := inBubble(t)
			time.Sleep(2 * time.Hour)
			r.s.fill(true)
			r.p.refresh = "what only another one knew"
			if token, err := use(t, r.Connector); err == nil {
				t.Errorf("it gives %q", token)
			}
			time.Sleep(time.Minute)
			r.s.fill(false)
			time.Sleep(firstPause + time.Second)
			if r.s.stored(t).Over == "" {
				t.Error("that it is over is not stored")
			}
		})
	})
	t.Run("and found again by a request", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, _ := unstored(t)
			anew := r.s.stored(t)
			anew.AccessToken = "signed-in-anew"
			r.s.set(t, anew, 2)
			time.Sleep(time.Minute)
			r.s.fill(false)
			time.Sleep(time.Minute)
			if r.s.stored(t).AccessToken != "signed-in-anew" || len(r.waiting()) > 0 {
				t.Error("the grant of before took the place of the new sign-in, or waits to")
			}
		})
	})
}

// A vault that is open again is told of: what waits for it is stored at once.
func TestWhatCouldNotBeStoredIsStoredWhenTheVaultOpens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := inBubble(t)
		l := &lockable{shelf: r.s}
		r.o.Vault, r.o.Keeper = l, l
		time.Sleep(2 * time.Hour)
		r.p.meanwhile(func() { l.shut.Store(true) })
		if token, err := use(t, r.Connector); err == nil {
			t.Errorf("it gives %q", token)
		}
		time.Sleep(time.Minute + time.Millisecond)
		l.shut.Store(false)
		opened := time.Now()
		r.Nudge()
		r.Nudge()
		synctest.Wait()
		if r.s.stored(t).RefreshToken != "refresh-token-1" || !time.Now().Equal(opened) {
			t.Error("it waits for its turn")
		}
	})
}

// The end of a process ends the attempts too, and says what is in their way: a database, or a lock.
func TestTheEndOfAProcessEndsTheAttemptsToStore(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		code runtime.Code
		hint string
	}{"database": {runtime.CodeStorageBusy, "database can be written"}, "lock": {runtime.CodeVaultLocked, "kimbap unlock"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, l := unstored(t)
				l.shut.Store(name == "lock")
				ended, end := context.WithCancel(t.Context())
				end()
				e := runtime.AsError(r.Close(ended))
				if e == nil || e.Code != want.code || !strings.Contains(e.Hint, want.hint) || strings.Contains(e.Msg, "locked") != (name == "lock") {
					t.Errorf("%+v", e)
				}
				synctest.Wait()
				n := r.s.tried()
				time.Sleep(time.Hour)
				if r.s.tried() != n {
					t.Error("an ended process goes on")
				}
			})
		})
	}
}
