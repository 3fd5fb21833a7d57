package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/connector"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// How long a provider may take for one answer, and a person for a sign-in.
const (
	providerTimeout = 10 * time.Second
	signInTime      = 10 * time.Minute
)

// newConnector is stage 4 over a vault: of OAuth grants it gives access tokens.
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

// OAuthClient is who kimbap is at an OAuth provider.
type OAuthClient = connector.Client

// SignsIn is how the key of a service is got by a sign-in.
type SignsIn struct {
	Service string
	Scopes  []string    // of the service, and those of the grant that is stored: other services may share it
	Browser bool        // a person can sign in in a browser here
	Device  bool        // or on another device
	Client  OAuthClient // of the grant that is stored, if it is of the same provider; without an id there is none

	oauth *runtime.OAuth
	ref   string
}

// SignsIn says how the key of a service is got by a sign-in; nil for a service whose key is
// pasted.
func (a *App) SignsIn(ctx context.Context, name string) (*SignsIn, error) {
	service, err := a.toLink(name)
	if err != nil || service == nil || service.Auth == nil || service.Auth.OAuth == nil {
		return nil, err
	}
	at := service.Auth.OAuth
	s := &SignsIn{Service: service.Name, Scopes: slices.Clone(at.Scopes), Browser: at.AuthorizeURL != "", Device: at.DeviceURL != "", oauth: at, ref: service.Auth.Ref}
	who, granted, err := a.connector.Stored(ctx, a.tenant, service.Auth.Ref, at)
	if err != nil {
		return nil, err
	}
	s.Client = who
	for _, scope := range granted {
		if !slices.Contains(s.Scopes, scope) {
			s.Scopes = append(s.Scopes, scope)
		}
	}
	return s, nil
}

// toLink is a service that is installed, or that the catalogue has.
func (a *App) toLink(name string) (*services.Service, error) {
	if s, ok := a.Services().Service(name); ok {
		return s, nil
	}
	data, err := catalog.Read(name)
	if err != nil {
		return nil, nil // [App.Link] says so
	}
	return services.Parse(name+".yaml", data)
}

// SignIn is what a sign-in is started with.
type SignIn struct {
	Client OAuthClient
	Scopes []string // instead of those of the service; none: those
	Device bool
	Port   int // that the browser comes back to; 0: any

	// Show tells the person where to agree; code is what is typed there, "" in a browser
	// that comes back to redirect by itself.
	Show func(url, code, redirect string)
}

// SignIn has a person sign in at the provider of a service, and returns the grant for
// [App.Link]. It is stored nowhere yet.
func (a *App) SignIn(ctx context.Context, s *SignsIn, o SignIn) (runtime.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, signInTime)
	defer cancel()
	scopes := s.Scopes
	if len(o.Scopes) > 0 {
		scopes = o.Scopes
	}
	grant, err := a.signIn(ctx, s, o, scopes)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		err = &runtime.Error{
			Code: runtime.CodeTimeout, Reason: runtime.ReasonNotGranted, Stage: runtime.StageCredential,
			Msg: "nobody agreed at the provider in time", Hint: "start again: kimbap link " + runtime.Quote(s.Service), Err: err,
		}
	}
	if err != nil {
		return runtime.Secret{}, err
	}
	return grant.Seal()
}

func (a *App) signIn(ctx context.Context, s *SignsIn, o SignIn, scopes []string) (*connector.Grant, error) {
	if o.Device {
		way, err := a.connector.BeginOnDevice(ctx, s.oauth, o.Client, scopes)
		if err != nil {
			return nil, err
		}
		o.Show(way.URL, way.Code, "")
		return way.Await(ctx)
	}
	back, err := connector.Listen(o.Port)
	if err != nil {
		return nil, err
	}
	defer back.Close()
	a.listeners.Add(back.Addr())
	way := a.connector.Begin(s.oauth, o.Client, scopes, back.Redirect())
	o.Show(way.URL, "", back.Redirect())
	return back.Wait(ctx, way)
}

// GrantFrom is a grant for a refresh token that was got elsewhere, for [App.Link]: it is
// renewed at once.
func (a *App) GrantFrom(ctx context.Context, s *SignsIn, who OAuthClient, refresh runtime.Secret) (runtime.Secret, error) {
	grant, err := a.connector.Renewed(ctx, s.oauth, who, refresh)
	if err != nil {
		return runtime.Secret{}, err
	}
	return grant.Seal()
}

// endedGrants are the services whose provider has ended the grant that is stored, by name.
func (a *App) endedGrants(ctx context.Context) (out []string) {
	if a.vault.Locked() || a.connector == nil {
		return nil
	}
	for _, s := range a.Services().Services() {
		if s.Auth == nil || s.Auth.OAuth == nil {
			continue
		}
		if over, err := a.connector.Over(ctx, a.tenant, s.Auth.Ref); err == nil && over { // a vault that cannot be read shows elsewhere
			out = append(out, s.Name)
		}
	}
	slices.Sort(out)
	return out
}
