package signin

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/connector"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// returnTime bounds how long providers are waited for, of however many grants.
const returnTime = 20 * time.Second

// GiveBack tells a provider that the stored grant is not wanted any more. The name is that of a
// credential, which may be any value. In a locked vault nobody can tell what a value is: one
// that a service signs in for is taken for a grant.
func (d Desk) GiveBack(ctx context.Context, name string) connector.Returned {
	stored, err := d.Vault.List(ctx, d.Tenant)
	if err != nil {
		return connector.Nothing // nor can it be removed
	}
	for _, e := range stored {
		if e.Name == name {
			return d.giveBack(ctx, e)
		}
	}
	return connector.Nothing
}

// giveBack is GiveBack of what is stored under a name.
func (d Desk) giveBack(ctx context.Context, e vault.Entry) connector.Returned {
	if e.Reference != nil { // whose command is not run for this
		return connector.Nothing
	}
	if d.Vault.Locked() {
		return d.leaves(e.Name)
	}
	became, err := d.Connector.Revoke(ctx, d.Tenant, e.Name)
	if err == nil {
		return became
	}
	d.Log.Info().Err(err).Str("credential", e.Name).Str("tenant", string(d.Tenant)).Msg("an OAuth grant could not be given back")
	if became == connector.Nothing && d.mayLive(ctx, e.Name) {
		became = cmp.Or(d.leaves(e.Name), connector.Alive)
	}
	return became
}

// mayLive reports whether a credential that could not be given back may be a grant, where the
// time for that is over too.
func (d Desk) mayLive(ctx context.Context, name string) bool {
	over, grant, err := d.Connector.Over(context.WithoutCancel(ctx), d.Tenant, name)
	return grant && !over || err != nil && d.leaves(name) != connector.Nothing
}

// leaves is what stays at its provider of a credential that cannot be looked at, as the services
// say how they get it.
func (d Desk) leaves(name string) connector.Returned {
	left := connector.Nothing
	for _, s := range d.Services.Services() {
		switch {
		case s.Auth == nil || s.Auth.OAuth == nil || s.Auth.Ref != name:
		case !s.Auth.OAuth.OfClient():
			return connector.Alive
		default:
			left = connector.Lasting
		}
	}
	return left
}

// GiveBackNew gives back a grant that [Desk.SignIn] got for a service and that was not stored.
func (d Desk) GiveBackNew(ctx context.Context, of *Offer, grant runtime.Secret) connector.Returned {
	became, err := d.Connector.Return(context.WithoutCancel(ctx), d.Tenant, of.ref, grant)
	if err != nil {
		d.Log.Info().Err(err).Str("credential", of.ref).Msg("an OAuth grant could not be given back")
	}
	return became
}

// GiveBackAll gives back all stored grants, as many as can be in time, and returns the
// names of those that stay alive at their providers.
func (d Desk) GiveBackAll(ctx context.Context) (alive []string) {
	ctx, cancel := context.WithTimeout(ctx, returnTime)
	defer cancel()
	stored, err := d.Vault.List(ctx, d.Tenant)
	if err != nil {
		return nil
	}
	for _, e := range stored {
		if became := d.giveBack(ctx, e); became == connector.Alive || became == connector.Lasting {
			alive = append(alive, e.Name)
		}
	}
	slices.Sort(alive)
	return alive
}
