// Package signin gets the keys of services by a sign-in: a person agrees at the provider, in a
// browser of this machine or on another device, or it gives tokens to the client itself; and what
// is granted can be given back.
//
// It stores nothing: a grant is handed over sealed, for whoever stores it. It opens no
// connection itself; those to providers are the connector's, through the guard.
//
// Start reading at [Desk.For], then [Desk.SignIn]; what becomes of a grant that is not wanted
// any more is [Desk.GiveBack].
package signin

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/connector"
	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// patience is how long a person may take for a sign-in.
const patience = 10 * time.Minute

// Desk does so for one tenant. All is required. It is safe for concurrent use.
type Desk struct {
	Connector *connector.Connector
	Vault     *vault.Vault
	Tenant    runtime.Tenant
	Services  *services.Set
	Expects   func(net.Addr) // told where a browser comes back to, before it does
	Log       zerolog.Logger
}

// Offer is how the key of a service is got by a sign-in.
type Offer struct {
	Service string
	Scopes  []string         // of the service, and those of the grant that is stored: other services may share it
	Browser bool             // a person can sign in in a browser here
	Device  bool             // or on another device
	Machine bool             // nobody signs in: the client itself is given tokens, for its secret
	Client  connector.Client // of the grant that is stored, if it is of the same provider; without an id there is none

	oauth *runtime.OAuth
	ref   string
}

// For says how the key of a service is got by a sign-in; nil for a service whose key is
// pasted.
func (d Desk) For(ctx context.Context, name string) (*Offer, error) {
	service, err := d.service(name)
	if err != nil || service == nil || service.Auth == nil || service.Auth.OAuth == nil {
		return nil, err
	}
	at := service.Auth.OAuth
	offer := &Offer{Service: service.Name, Scopes: slices.Clone(at.Scopes), Browser: at.AuthorizeURL != "", Device: at.DeviceURL != "", Machine: at.OfClient(), oauth: at, ref: service.Auth.Ref}
	who, granted, err := d.Connector.Stored(ctx, d.Tenant, service.Auth.Ref, at)
	if err != nil {
		return nil, err
	}
	if !offer.Machine || !who.Secret.Empty() {
		offer.Client = who
	}
	for _, scope := range granted {
		if !slices.Contains(offer.Scopes, scope) {
			offer.Scopes = append(offer.Scopes, scope)
		}
	}
	return offer, nil
}

// service is one that is installed, or that the catalogue has.
func (d Desk) service(name string) (*services.Service, error) {
	if s, ok := d.Services.Service(name); ok {
		return s, nil
	}
	data, err := catalog.Read(name)
	if err != nil {
		return nil, nil // who links it is told
	}
	return services.Parse(name+".yaml", data)
}

// Options are what a sign-in is started with.
type Options struct {
	Client connector.Client
	Scopes []string // instead of those of the service; none: those
	Device bool
	Port   int // that the browser comes back to; 0: any

	// Show tells the person where to agree; code is what is typed there, "" in a browser
	// that comes back to redirect by itself.
	Show func(url, code, redirect string)
	// Less tells which scopes the provider did not grant; nil: nobody is told.
	Less func(scopes []string)
}

// SignIn has a person sign in at the provider of a service, and returns the grant for
// whoever stores it. It waits ten minutes for the person. Where the client itself is given
// tokens, it gets the first.
func (d Desk) SignIn(ctx context.Context, of *Offer, o Options) (runtime.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o.Scopes = strings.Fields(strings.Join(o.Scopes, " ")) // a provider reads them so (RFC 6749 section 3.3)
	scopes := of.Scopes
	if len(o.Scopes) > 0 {
		scopes = o.Scopes
	}
	grant, err := d.agreed(ctx, of, o, scopes)
	if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) && !errors.As(err, new(*runtime.Error)) { // which is of a provider that was silent after a yes
		err = &runtime.Error{
			Code: runtime.CodeTimeout, Reason: runtime.ReasonNotGranted, Stage: runtime.StageCredential,
			Msg: "nobody agreed at the provider in time", Hint: "start again: kimbap link " + runtime.Quote(of.Service), Err: err,
		}
	}
	if err != nil {
		return runtime.Secret{}, runtime.OfService(err, d.Tenant, of.Service)
	}
	return grant.Seal()
}

// agreed is what the person has agreed to, in a browser or on another device, or what the client
// is given without one.
func (d Desk) agreed(ctx context.Context, of *Offer, o Options, scopes []string) (*connector.Grant, error) {
	if of.Machine {
		return d.given(ctx, of, o, scopes)
	}
	if o.Device && !of.Device {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Stage: runtime.StageCredential,
			Msg:  "nobody can sign in for " + of.Service + " on another device: its service file has no device_url",
			Hint: "leave --device out; for a browser on another machine add --port 8910 here, and there: ssh -L 8910:127.0.0.1:8910 HOST",
		}
	}
	if o.Device {
		way, err := d.Connector.BeginOnDevice(ctx, of.oauth, o.Client, scopes)
		if err != nil {
			return nil, err
		}
		o.Show(way.URL, way.Code, "")
		grant, err := way.Await(ctx)
		return o.granted(of, way, grant, err)
	}
	back, err := connector.Listen(o.Port)
	if err != nil {
		return nil, err
	}
	defer back.Close()
	d.Expects(back.Addr())
	way := d.Connector.Begin(of.oauth, o.Client, scopes, back.Redirect())
	o.Show(way.URL, "", back.Redirect())
	grant, err := back.Wait(ctx, way)
	return o.granted(of, way, grant, err)
}

// given is what the client itself is given.
func (d Desk) given(ctx context.Context, of *Offer, o Options, scopes []string) (*connector.Grant, error) {
	switch {
	case o.Device || o.Port != 0:
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Stage: runtime.StageCredential,
			Msg: "nobody signs in for " + of.Service + ": its provider gives tokens to your client itself", Hint: "leave --device and --port out",
		}
	case o.Client.Secret.Empty():
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Stage: runtime.StageCredential,
			Msg:  "the client of " + of.Service + " has no secret, for which alone it is given tokens",
			Hint: "kimbap link " + runtime.Quote(of.Service) + " --client FILE, with client_id and client_secret",
		}
	}
	way := d.Connector.BeginAsClient(of.oauth, o.Client, scopes)
	grant, err := way.Ask(ctx)
	return o.granted(of, way, grant, err)
}

// granted says what a grant lacks of what was asked for: in words of the service file or the person,
// not in those that a provider called its scopes by before.
func (o Options) granted(of *Offer, way *connector.SignIn, grant *connector.Grant, err error) (*connector.Grant, error) {
	if err != nil || o.Less == nil {
		return grant, err
	}
	less := slices.DeleteFunc(way.Withheld(grant), func(scope string) bool {
		return !slices.Contains(of.oauth.Scopes, scope) && !slices.Contains(o.Scopes, scope)
	})
	if len(less) > 0 {
		o.Less(less)
	}
	return grant, nil
}

// Renew returns the grant of a refresh token that was got elsewhere. It is renewed at once.
func (d Desk) Renew(ctx context.Context, of *Offer, who connector.Client, refresh runtime.Secret) (runtime.Secret, error) {
	grant, err := d.Connector.Renewed(ctx, of.oauth, who, refresh)
	if err != nil {
		return runtime.Secret{}, runtime.OfService(err, d.Tenant, of.Service)
	}
	return grant.Seal()
}

// Ended are the services whose stored grant gives no token any more, by name.
func (d Desk) Ended(ctx context.Context) (out []string) {
	for _, s := range d.Services.Services() {
		if d.Over(ctx, d.Tenant, s) {
			out = append(out, s.Name)
		}
	}
	slices.Sort(out)
	return out
}

// Over reports whether the grant that a tenant has for a service is stored and gives no token
// any more.
func (d Desk) Over(ctx context.Context, tenant runtime.Tenant, s *services.Service) bool {
	if s.Auth == nil || s.Auth.OAuth == nil || d.Vault.Locked() || d.Connector == nil {
		return false
	}
	over, _, err := d.Connector.Over(ctx, tenant, s.Auth.Ref)
	return err == nil && over // a vault that cannot be read shows elsewhere
}
