package app

import (
	"context"

	"github.com/kimbap-run/kimbap/internal/toolbox"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// What a caller is told of the services that it can use.
type (
	Available = toolbox.Available
	Advice    = toolbox.Advice
)

// toolbox is what there is to use here.
func (a *App) toolbox() toolbox.Box {
	return toolbox.Box{Home: a.home, Services: a.services, Asks: a.asks, HasKey: a.hasKey, Over: a.SignIns().Over, Project: a.projectFiles}
}

// hasKey reports whether a tenant's credential is stored and has not expired.
func (a *App) hasKey(ctx context.Context, tenant runtime.Tenant, credential string) (bool, error) {
	row, found, err := a.store.Secret(ctx, tenant, credential)
	return err == nil && found && !vault.Entry{Expires: row.Expires}.Expired(a.o.Clock()), err
}

// projectFiles are the service files of the repository.
func (a *App) projectFiles() []string {
	p, err := a.Project()
	if err != nil || p == nil {
		return nil
	}
	return p.Files
}

// ListAvailable lists the services that the caller can use, and where each is from.
func (a *App) ListAvailable(ctx context.Context) ([]Available, error) {
	who, err := a.actsAs(ctx)
	if err != nil {
		return nil, err
	}
	return a.toolbox().Available(ctx, &who), nil
}

// ShowTools writes what a script may call, in TypeScript: of all services, of
// one, or one action.
func (a *App) ShowTools(ctx context.Context, name string) (string, []sandbox.Definition, error) {
	who, err := a.actsAs(ctx)
	if err != nil {
		return "", nil, err
	}
	return a.toolbox().Show(&who, name)
}

// FoundTools are what a search has found.
type FoundTools = sandbox.Found

// SearchTools finds actions by words, the best first.
func (a *App) SearchTools(ctx context.Context, query string, limit int) (sandbox.Found, error) {
	who, err := a.actsAs(ctx)
	if err != nil {
		return sandbox.Found{}, err
	}
	return a.toolbox().Find(&who, sandbox.Search{Query: query, Limit: limit})
}

// Advise gathers how to use one service, or all.
func (a *App) Advise(ctx context.Context, name string) ([]Advice, error) {
	who, err := a.actsAs(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := a.toolbox().Usable(&who, name); err != nil {
		return nil, err
	}
	return a.toolbox().Advise(&who, name), nil
}
