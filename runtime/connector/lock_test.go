package connector

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// lockable is a shelf that its owner can lock, as a vault.
type lockable struct {
	*shelf
	shut atomic.Bool
}

var errShut = &runtime.Error{Code: runtime.CodeVaultLocked, Reason: runtime.ReasonLocked, Msg: "the vault is locked"}

func (l *lockable) Credential(ctx context.Context, of runtime.Tenant, auth *runtime.Auth) (runtime.Credential, error) {
	if l.shut.Load() {
		return runtime.Credential{}, errShut
	}
	return l.shelf.Credential(ctx, of, auth)
}

func (l *lockable) Replace(ctx context.Context, of runtime.Tenant, name string, was, value runtime.Secret) error {
	if l.shut.Load() {
		return errShut
	}
	return l.shelf.Replace(ctx, of, name, was, value)
}

// A lock that comes while a provider answers keeps its token back: it is handed out to nobody, of
// a person's grant or a client's own, and is there again once the vault is open.
func TestATokenThatComesDuringALockIsNotHandedOut(t *testing.T) {
	t.Parallel()
	for name, ofClient := range map[string]bool{"of a person": false, "of the client": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if ofClient {
				r.linked(t, r.machine())
			}
			l := &lockable{shelf: r.s}
			r.o.Vault, r.o.Keeper = l, l
			r.now.Advance(2 * time.Hour)
			r.p.meanwhile(func() { l.shut.Store(true) })
			if got, err := use(t, r.Connector); err == nil || err.Code != runtime.CodeVaultLocked || got != "" {
				t.Errorf("it gives %q, %v", got, err)
			}
			l.shut.Store(false)
			r.uses(t, r.waiting()[place{"default", "google.token"}].grant.AccessToken)
		})
	}
}

// Another key that is stored while a provider answers is the one that is used, not the token of
// the account before it; of one that was removed nothing is.
func TestAKeyStoredDuringARenewalIsUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stored runtime.Secret
		want   string
	}{
		"a grant":    {sealed(t, &Grant{TokenURL: "https://login.test/token", RefreshToken: "r", AccessToken: "signed-in-anew"}), "signed-in-anew"},
		"a token":    {runtime.NewSecret("pasted"), "pasted"},
		"none":       {},
		"an old one": {sealed(t, &Grant{TokenURL: "https://login.test/token", AccessToken: "a", Expires: time.Unix(1, 0)}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.now.Advance(2 * time.Hour)
			r.p.meanwhile(func() {
				r.s.mu.Lock()
				defer r.s.mu.Unlock()
				r.s.values["google.token"] = c.stored
				if c.stored.Empty() {
					delete(r.s.values, "google.token")
				}
			})
			cred, err := r.Credential(t.Context(), "default", asBearer)
			if cred.Value.Reveal() != c.want || (err != nil) != (name == "an old one") {
				t.Errorf("it gives %q, %v", cred.Value.Reveal(), err)
			}
		})
	}
}

func sealed(t *testing.T, g *Grant) runtime.Secret {
	t.Helper()
	value, err := g.Seal()
	if err != nil {
		t.Fatal(err)
	}
	return value
}
