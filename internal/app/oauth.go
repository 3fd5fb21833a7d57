package app

import (
	"context"
	"time"

	"github.com/kimbap-run/kimbap/internal/signin"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/connector"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// providerTimeout is how long a provider may take for one answer.
const providerTimeout = 10 * time.Second

// newConnector is stage 4 over a vault: where a grant is stored, it gives its access token.
func (a *App) newConnector(over runtime.Vault) (*connector.Connector, error) {
	return connector.New(connector.Options{
		Vault: over, Keeper: a.vault, Client: a.dialer().Client(providerTimeout, a.upstreamTLS), Clock: a.o.Clock,
		Lock: a.neighbours.LockGrant,
		Note: func(ctx context.Context, tenant runtime.Tenant, event, name, result string) error {
			fields := map[string]string{"name": name}
			if result != "" {
				fields["result"] = result
			}
			if event == connector.EventOver { // whoever gives one back is told at once
				a.o.Log.Warn().Str("credential", name).Str("tenant", string(tenant)).Str("result", result).Msg("an OAuth grant is over: sign in anew")
			}
			put := a.trail.Event
			if event != connector.EventRefresh { // the grant is over, or is to be
				put = a.inLedger
			}
			return put(ctx, record.Event{Kind: event, Principal: a.Operator().ID, Tenant: tenant, Fields: fields})
		},
	})
}

// OAuthClient is who kimbap is at an OAuth provider, SignInOffer how the key of a service is
// got by a sign-in, and SignInOptions what that is started with.
type (
	OAuthClient   = connector.Client
	SignInOffer   = signin.Offer
	SignInOptions = signin.Options
)

// Returned is what became of an OAuth grant that is not wanted any more.
type Returned = connector.Returned

// What can become of one.
const (
	GrantGiven   = connector.Given
	GrantAlive   = connector.Alive
	GrantLasting = connector.Lasting
)

// IsGrant reports whether a key is a grant of a provider.
func IsGrant(secret runtime.Secret) bool { return connector.IsGrant(secret) }

// Known is an error where no service of that name is installed or in the catalogue.
func (a *App) Known(name string) error {
	if _, ok := a.Services().Service(name); ok {
		return nil
	}
	if _, err := catalog.Read(name); err == nil {
		return nil
	}
	return a.unknownService(name)
}

// SignIns gets the keys of services by a sign-in, and gives back what was granted.
func (a *App) SignIns() signin.Desk { return a.signInsOf(a.tenant) }

func (a *App) signInsOf(tenant runtime.Tenant) signin.Desk {
	return signin.Desk{
		Connector: a.connector, Vault: a.vault, Tenant: tenant, Services: a.Services(), Expects: a.listeners.Add, Log: a.o.Log,
	}
}

// GiveBack tells a provider that the stored grant of a service is not wanted any more.
func (a *App) GiveBack(ctx context.Context, service string) Returned {
	s, err := a.toUnlink(service)
	if err != nil || s.Auth.Ref == "" {
		return connector.Nothing // [App.Unlink] says so
	}
	return a.SignIns().GiveBack(ctx, s.Auth.Ref)
}
