package app

import (
	"context"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime/approval"
)

// Named is something with a name that a shell can offer, and a word on what it is.
type Named struct{ Name, About string }

// What follows works after [App.OpenToRead] and needs no key of the vault: it tells names,
// and nothing is decided by them.

// NamedPending returns the approvals that can be decided.
func (a *App) NamedPending(ctx context.Context) ([]Named, error) {
	return a.namedApprovals(ctx, func(p approval.Approval) bool { return a.o.Clock().Before(p.Expires) }, approval.Pending)
}

// NamedApprovals returns the newest approvals, whatever became of them.
func (a *App) NamedApprovals(ctx context.Context) ([]Named, error) {
	return a.namedApprovals(ctx, func(approval.Approval) bool { return true })
}

func (a *App) namedApprovals(ctx context.Context, meant func(approval.Approval) bool, states ...approval.State) (out []Named, err error) {
	if err := a.reachStore(ctx); err != nil {
		return nil, err
	}
	list, err := a.store.Approvals(ctx, a.tenant, "", states, ListLimit)
	for _, p := range list {
		if meant(p) {
			out = append(out, Named{p.ID, string(p.Action) + ", asked by " + p.Agent})
		}
	}
	return out, err
}

// NamedGrants returns the approvals that allow more than their one request.
func (a *App) NamedGrants(ctx context.Context) ([]Named, error) {
	if err := a.reachStore(ctx); err != nil {
		return nil, err
	}
	list, err := a.store.Grants(ctx, a.tenant, "", a.o.Clock())
	var out []Named
	for _, g := range list {
		out = append(out, Named{g.ID, "until " + g.Expires.Local().Format(time.DateTime)})
	}
	return out, err
}

// NamedTokens returns the tokens that are valid.
func (a *App) NamedTokens(ctx context.Context) ([]Named, error) {
	if err := a.reachStore(ctx); err != nil {
		return nil, err
	}
	list, err := a.store.Tokens(ctx, a.tenant)
	var out []Named
	for _, t := range list {
		if a.Shown(t).State == "valid" {
			out = append(out, Named{t.ID, t.Agent})
		}
	}
	return out, err
}

// NamedSecrets returns the stored credentials.
func (a *App) NamedSecrets(ctx context.Context) ([]Named, error) {
	if err := a.reachStore(ctx); err != nil {
		return nil, err
	}
	list, err := a.store.Secrets(ctx, a.tenant)
	var out []Named
	for _, s := range list {
		out = append(out, Named{s.Name, strings.Join(s.Authorities, " ")})
	}
	return out, err
}
