package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/identity"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// Service is a loaded service file.
type Service = services.Service

// Catalog loads every service that is shipped.
func Catalog() ([]*Service, error) {
	var files []services.File
	for _, name := range catalog.Names() {
		data, err := catalog.Read(name)
		if err != nil {
			return nil, err
		}
		files = append(files, services.File{Name: name + ".yaml", Data: data})
	}
	return services.ParseAll(files)
}

// CatalogNames are the services that can be installed by name.
func CatalogNames() []string { return catalog.Names() }

// Action finds an action by "service.action", an alias of the service included.
func (a *App) Action(ref string) (*runtime.Action, error) {
	service, name, ok := strings.Cut(ref, ".")
	s, installed := a.Services().Service(service)
	if ok && installed {
		ref = s.Name + "." + name
	}
	if action, found := a.Services().Action(ref); found {
		return action, nil
	}
	e := &runtime.Error{
		Code: runtime.CodeUnknownAction, Stage: runtime.StageResolve,
		Msg: fmt.Sprintf("there is no action %q", ref), Hint: "kimbap actions list",
	}
	if near := a.Services().Suggest(ref); len(near) > 0 {
		e.Msg += "; did you mean " + strings.Join(near, ", ") + "?"
	} else if installed {
		e.Hint = "kimbap actions list " + service
	} else if slices.Contains(a.DisabledServices(), service) {
		e.Msg, e.Hint = fmt.Sprintf("the service %q is disabled", service), "kimbap service enable "+service
	} else if data, err := catalog.Read(service); ok && err == nil && len(data) > 0 {
		e.Msg, e.Hint = fmt.Sprintf("the service %q is not installed", service), "kimbap service install "+service
	} else {
		return nil, a.unknownService(service)
	}
	return nil, e
}

// Token is what is stored of a token.
type Token = identity.Token

// Argument reads what a person wrote for an argument of an action, typed; the
// complaint finishes a sentence that starts with the argument.
func Argument(p *runtime.Param, text string) (value any, complaint string) {
	return services.Argument(p, text)
}

// TokenGrant is what a new token may do.
type TokenGrant struct {
	Agent                 string
	Run                   string
	Scopes, Roles, Groups []string
	TTL                   time.Duration
}

// CreateToken makes a token in the operator's name.
func (a *App) CreateToken(ctx context.Context, g TokenGrant) (runtime.Secret, identity.Token, error) {
	scopes := make([]runtime.Scope, len(g.Scopes))
	for i, s := range g.Scopes {
		scopes[i] = runtime.Scope(s)
	}
	err := a.trail.Event(ctx, record.Event{
		Kind: "token.create", Principal: a.Operator().ID, Tenant: a.tenant,
		Fields: map[string]string{"agent": g.Agent, "scopes": strings.Join(g.Scopes, " "), "ttl": runtime.Span(g.TTL)},
	})
	if err != nil {
		return runtime.Secret{}, identity.Token{}, err
	}
	return a.identity.Mint(ctx, a.Operator(), identity.Grant{
		Tenant: a.tenant, Agent: g.Agent, Run: g.Run, Scopes: scopes, Roles: g.Roles, Groups: g.Groups, TTL: g.TTL,
	})
}

// ProlongToken gives the token of a run that goes on another ttl, and returns how much
// it has; false when there is none of that id that the operator made for a run.
func (a *App) ProlongToken(ctx context.Context, id string, ttl time.Duration) (time.Duration, bool, error) {
	err := a.trail.Event(ctx, record.Event{
		Kind: "token.prolong", Principal: a.Operator().ID, Tenant: a.tenant,
		Fields: map[string]string{"token": id, "ttl": ttl.String()},
	})
	if err != nil {
		return 0, false, err
	}
	return a.identity.Prolong(ctx, a.Operator(), id, ttl)
}

// ListTokens lists the tokens of the tenant, the newest first.
func (a *App) ListTokens(ctx context.Context) ([]Token, error) {
	return a.identity.List(ctx, a.tenant)
}

// RevokeToken revokes by id; false when there is no valid token of that id.
func (a *App) RevokeToken(ctx context.Context, id string) (bool, error) {
	err := a.trail.Event(ctx, record.Event{
		Kind: "token.revoke", Principal: a.Operator().ID, Tenant: a.tenant,
		Fields: map[string]string{"token": id},
	})
	if err != nil {
		return false, err
	}
	return a.identity.Revoke(ctx, a.tenant, id)
}

// RevokeTokens revokes every valid token of the tenant, those of runs too, and
// returns their ids.
func (a *App) RevokeTokens(ctx context.Context) ([]string, error) {
	event := record.Event{Kind: "token.revoke_all", Principal: a.Operator().ID, Tenant: a.tenant}
	if err := a.trail.Event(ctx, event); err != nil {
		return nil, err
	}
	tokens, err := a.identity.List(ctx, a.tenant)
	if err != nil {
		return nil, err
	}
	now, revoked := a.o.Clock(), []string{}
	for _, t := range tokens {
		if !t.Revoked.IsZero() || !now.Before(t.Expires) {
			continue
		}
		ok, err := a.identity.Revoke(ctx, a.tenant, t.ID)
		if err != nil {
			return revoked, err
		}
		if ok {
			revoked = append(revoked, t.ID)
		}
	}
	return revoked, nil
}

// Rebind keeps the stored credential of a service and binds it to the hosts
// that the installed services name now.
func (a *App) Rebind(ctx context.Context, name string) (Linked, error) {
	service, ok := a.Services().Service(name)
	if !ok {
		return Linked{}, a.unknownService(name)
	}
	if service.Auth.Ref == "" {
		return Linked{}, needsNone(service)
	}
	hosts := a.Services().AuthoritiesOf(service.Auth.Ref)
	if err := a.vaultEvent(ctx, "vault.rebind", service.Auth.Ref, hosts); err != nil {
		return Linked{}, err
	}
	version, err := a.vault.Rebind(ctx, a.tenant, service.Auth.Ref, hosts)
	if e := runtime.AsError(err); err != nil && e.Reason == runtime.ReasonNotFound {
		return Linked{}, &runtime.Error{
			Code: runtime.CodeNoCredential, Msg: fmt.Sprintf("no key is stored for %s", name),
			Hint: "kimbap link " + runtime.Quote(name),
		}
	}
	if user := service.Auth.UsernameRef; err == nil && user != "" {
		_, err = a.vault.Rebind(ctx, a.tenant, user, a.Services().AuthoritiesOf(user))
		if e := runtime.AsError(err); err != nil && e.Reason == runtime.ReasonNotFound {
			err = nil
		}
	}
	return Linked{Service: service.Name, Secret: service.Auth.Ref, Version: version, Hosts: hosts}, err
}
