package app

import (
	"context"
	"slices"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/connector"
	"github.com/kimbap-run/kimbap/services"
)

// Returned is what became of an OAuth grant that is not wanted any more.
type Returned = connector.Returned

// What can become of one.
const (
	GrantGiven = connector.Given
	GrantAlive = connector.Alive
)

// returnTime bounds how long providers are waited for, of however many grants.
const returnTime = 20 * time.Second

// GiveBack tells a provider that the stored grant of a service is not wanted any more.
func (a *App) GiveBack(ctx context.Context, name string) Returned {
	service, err := a.toUnlink(name)
	if err != nil || service.Auth.Ref == "" {
		return connector.Nothing // [App.Unlink] says so
	}
	return a.GiveBackStored(ctx, service.Auth.Ref)
}

// GiveBackStored is GiveBack by the name of a credential, which may be any value.
func (a *App) GiveBackStored(ctx context.Context, name string) Returned {
	return a.giveBackOf(ctx, a.tenant, name)
}

// giveBackOf is GiveBackStored of any tenant. In a locked vault nobody can tell what a value
// is: one that a service signs in for is taken for a grant.
func (a *App) giveBackOf(ctx context.Context, tenant runtime.Tenant, name string) Returned {
	stored, err := a.vault.List(ctx, tenant)
	if err != nil {
		return connector.Nothing // nor can it be removed
	}
	for _, e := range stored {
		if e.Name != name || e.Reference != nil { // whose command is not run for this
			continue
		}
		if a.vault.Locked() {
			if a.signsInFor(name) {
				return GrantAlive
			}
			break
		}
		became, err := a.connector.Revoke(ctx, tenant, name)
		if err != nil {
			a.o.Log.Info().Err(err).Str("credential", name).Str("tenant", string(tenant)).Msg("an OAuth grant could not be given back")
			if became == connector.Nothing && a.signsInFor(name) {
				became = GrantAlive
			}
		}
		return became
	}
	return connector.Nothing
}

// signsInFor reports whether a service gets the credential of that name by a sign-in.
func (a *App) signsInFor(name string) bool {
	return slices.ContainsFunc(a.Services().Services(), func(s *services.Service) bool {
		return s.Auth != nil && s.Auth.OAuth != nil && s.Auth.Ref == name
	})
}

// GiveBackNew gives back a grant that [App.SignIn] got for a service and that was not stored.
func (a *App) GiveBackNew(ctx context.Context, s *SignsIn, grant runtime.Secret) Returned {
	became, err := a.connector.Return(context.WithoutCancel(ctx), a.tenant, s.ref, grant)
	if err != nil {
		a.o.Log.Info().Err(err).Str("credential", s.ref).Msg("an OAuth grant could not be given back")
	}
	return became
}

// giveBackAll gives back the grants of a tenant, as many as can be in time, and returns the
// names of those that stay alive at their providers.
func (a *App) giveBackAll(ctx context.Context, tenant runtime.Tenant) (alive []string) {
	ctx, cancel := context.WithTimeout(ctx, returnTime)
	defer cancel()
	stored, err := a.vault.List(ctx, tenant)
	if err != nil {
		return nil
	}
	for _, e := range stored {
		if a.giveBackOf(ctx, tenant, e.Name) == GrantAlive {
			alive = append(alive, e.Name)
		}
	}
	slices.Sort(alive)
	return alive
}
