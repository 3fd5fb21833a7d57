package connector

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// laden is a rig whose renewed grant could not be stored and has aged since: it is shown to the
// provider next, and the store takes values again only from here on.
func laden(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.s.fill(true)
	r.now.Advance(2 * time.Hour)
	r.uses(t, "access-token-1")
	r.running.Wait()
	r.now.Advance(2 * time.Hour)
	at := place{"default", "google.token"}
	r.keep(t.Context(), at, r.waiting()[at]) // which was just tried, so that it waits for its next turn
	return r
}

// meanwhile has something happen while the provider has a question, which it then answers.
func (p *provider) meanwhile(happens func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.instead = func(w http.ResponseWriter, r *http.Request) {
		p.itself()
		happens()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.n++
		p.refresh = fmt.Sprintf("refresh-token-%d", p.n)
		fmt.Fprintf(w, `{"access_token":"access-token-%d","refresh_token":%q,"expires_in":3600}`, p.n, p.refresh)
	}
}

// beside is a request whose caller has left already: it stores what waits, and waits for no
// renewal.
func (r *rig) beside(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	leave()
	_, _ = r.Credential(ctx, "default", asBearer)
}

// lasts checks that what the provider gave last is stored, or will be, by renewing it once more.
func (r *rig) lasts(t *testing.T, refresh, next string) {
	t.Helper()
	r.s.fill(false)
	r.now.Advance(firstPause)
	r.beside(t)
	if g := r.s.stored(t); g.RefreshToken != refresh || len(r.waiting()) > 0 {
		t.Errorf("the provider's last refresh token is nowhere: %s is stored", g.RefreshToken)
	}
	r.now.Advance(2 * time.Hour)
	r.uses(t, next)
}

// A renewed grant takes the place of the one that it was made of, also where this process could
// not store that one and has come to do so meanwhile: what is stored then was used.
func TestARenewalOfWhatIsStoredMeanwhile(t *testing.T) {
	t.Parallel()
	t.Run("by the renewal itself", func(t *testing.T) {
		t.Parallel()
		r := laden(t)
		lock := r.o.Lock
		r.o.Lock = func(ctx context.Context, tenant runtime.Tenant, name string) (func(), error) {
			r.now.Advance(firstPause) // that another process had it for
			r.s.fill(false)
			return lock(ctx, tenant, name)
		}
		r.uses(t, "access-token-2")
		r.lasts(t, "refresh-token-2", "access-token-3")
	})
	t.Run("by a request beside it", func(t *testing.T) {
		t.Parallel()
		r := laden(t)
		r.p.meanwhile(func() {
			r.now.Advance(firstPause)
			r.s.fill(false)
			r.beside(t)
		})
		r.uses(t, "access-token-2")
		r.lasts(t, "refresh-token-2", "access-token-3")
	})
}

// slow is a shelf on which one value is stored as a test tells, however long that takes.
type slow struct {
	*shelf
	next func(store func() error) error // of the next value alone; nil: as the shelf does
}

func (s *slow) Replace(ctx context.Context, tenant runtime.Tenant, name string, was, value runtime.Secret) error {
	store := func() error { return s.shelf.Replace(ctx, tenant, name, was, value) }
	s.mu.Lock()
	next := s.next
	s.next = nil
	s.mu.Unlock()
	if next == nil {
		return store()
	}
	return next(store)
}

// The end of an attempt to store a grant, however it ends, changes nothing of a later grant
// that waits to be stored.
func TestAnAttemptThatEndsLate(t *testing.T) {
	t.Parallel()
	for name, does := range map[string]func(store func() error) error{
		"fails":                            func(func() error) error { return errFull },
		"succeeds":                         func(store func() error) error { return store() },
		"succeeds, and the answer is lost": func(store func() error) error { _ = store(); return errFull },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := laden(t)
			s := &slow{shelf: r.s}
			r.o.Keeper = s
			renewed, ended := make(chan struct{}), make(chan struct{})
			r.p.meanwhile(func() {
				r.now.Advance(firstPause)
				begun := make(chan struct{})
				s.next = func(store func() error) error {
					close(begun)
					<-renewed
					r.s.fill(false)
					return does(store)
				}
				go func() {
					defer close(ended)
					r.beside(t)
				}()
				<-begun
			})
			r.uses(t, "access-token-2")
			close(renewed)
			<-ended
			r.lasts(t, "refresh-token-2", "access-token-3")
		})
	}
}

// Who cannot lock a grant is told of another process only where there is one; of a disk or a
// database that fails the log says more, and agents learn no place of this machine.
func TestAGrantThatCannotBeLocked(t *testing.T) {
	t.Parallel()
	noLocks := &runtime.Error{Code: runtime.CodeInternal, Reason: runtime.ReasonStorageUnavailable, Msg: "/home/me/.kimbap/state/grant-1.lock cannot be locked: no locks"}
	away := &runtime.Error{Code: runtime.CodeStorageBusy, Reason: runtime.ReasonStorageUnavailable, Msg: "the database of the shared store cannot be used", RetryAfter: time.Second}
	taken := &runtime.Error{Code: runtime.CodeStorageBusy, Msg: "another process renews this grant", RetryAfter: time.Second}
	for name, c := range map[string]struct {
		cause   error
		another bool
		want    runtime.Error
	}{
		"another has it":                  {taken, true, runtime.Error{Code: runtime.CodeStorageBusy, Reason: runtime.ReasonOAuthRefreshFailed}},
		"the file may not be opened":      {&fs.PathError{Op: "open", Path: "/home/me/.kimbap/state/grant-1.lock", Err: fs.ErrPermission}, false, runtime.Error{Code: runtime.CodeInternal, Reason: runtime.ReasonOAuthRefreshFailed}},
		"a file system without locks":     {noLocks, false, runtime.Error{Code: runtime.CodeInternal, Reason: runtime.ReasonStorageUnavailable}},
		"a database that does not answer": {away, false, runtime.Error{Code: runtime.CodeStorageBusy, Reason: runtime.ReasonStorageUnavailable, RetryAfter: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.o.Lock = func(context.Context, runtime.Tenant, string) (func(), error) { return nil, c.cause }
			r.now.Advance(2 * time.Hour)
			_, err := use(t, r.Connector)
			if err == nil || err.Code != c.want.Code || err.Reason != c.want.Reason || err.RetryAfter < c.want.RetryAfter || !errors.Is(err, c.cause) {
				t.Fatalf("%+v", err)
			}
			if another := strings.Contains(err.Msg, "another kimbap process"); another != c.another || !another && !strings.Contains(err.Hint, "log") {
				t.Errorf("%s; %s", err.Msg, err.Hint)
			}
			if strings.Contains(err.Msg+err.Hint, "/home/me") {
				t.Errorf("agents read: %s; %s", err.Msg, err.Hint)
			}
		})
	}
}

// A grant that is not wanted any more is given back as this process has it, also where it could
// not be stored: what is stored was used, and its provider may know nothing of it.
func TestWhatIsNotStoredIsGivenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.s.fill(true)
	r.now.Advance(2 * time.Hour)
	r.uses(t, "access-token-1")
	became, err := r.Revoke(t.Context(), "default", "google.token")
	if became != Given || err != nil || len(r.p.revoked) != 1 || r.p.revoked[0].Get("token") != "refresh-token-1" {
		t.Errorf("%v %v: given back were %v", became, err, r.p.revoked)
	}
}

// A request that read what was stored before a grant came drops that grant while it is being
// stored: where that fails, the grant waits as any other, for it is nowhere else.
func TestAGrantThatIsDroppedWhileItIsStored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := &slow{shelf: r.s}
	r.o.Keeper = s
	s.next = func(func() error) error {
		r.held(t.Context(), place{"default", "google.token"}, runtime.NewSecret("of before"))
		return errFull
	}
	r.now.Advance(2 * time.Hour)
	r.uses(t, "access-token-1")
	r.running.Wait()
	r.lasts(t, "refresh-token-1", "access-token-2")
}
