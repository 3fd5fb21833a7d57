package app

import (
	"context"
	"time"

	"github.com/kimbap-run/kimbap/internal/keytrial"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/connector"
	"github.com/kimbap-run/kimbap/services"
)

// CheckKey tries the linked credential with one read. It returns the action and
// "" when the upstream took the key.
func (a *App) CheckKey(ctx context.Context, service string) (action, problem string) {
	s, ok := a.Services().Service(service)
	if !ok {
		return "", ""
	}
	t := keytrial.Try(ctx, s, a.pipeline, a.trying)
	return t.Action, t.Problem
}

// tryKey is CheckKey for a value that is not stored yet.
func (a *App) tryKey(ctx context.Context, s *services.Service, value runtime.Secret, hosts []string) (keytrial.Result, error) {
	o := a.stages()
	o.Vault = connector.Still{Vault: keytrial.Unstored{Next: a.vault, Ref: s.Auth.Ref, Value: value, Hosts: hosts}}
	p, err := runtime.New(o)
	if err != nil {
		return keytrial.Result{}, err
	}
	return keytrial.Try(ctx, s, p, a.trying), nil
}

// trying is who tries an action for the operator: the owner's own program, and in
// another tenant than the default one, which only a token is of, a token for this.
func (a *App) trying(ctx context.Context, action runtime.Ref) (runtime.Caller, func(), error) {
	if a.tenant == runtime.DefaultTenant {
		return a.Local(), func() {}, nil
	}
	token, info, err := a.CreateToken(ctx, TokenGrant{Agent: "local", Scopes: []string{string(action)}, TTL: time.Minute})
	if err != nil {
		return runtime.Caller{}, nil, err
	}
	return runtime.Caller{Token: token}, func() { _, _ = a.RevokeToken(context.WithoutCancel(ctx), info.ID) }, nil
}
