package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/kimbap-run/kimbap/internal/tenants"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/policy"
)

// AllTenants asks the trail for the records of every tenant.
const AllTenants runtime.Tenant = "*"

// Tenant is one of the tenants of the home.
type Tenant struct {
	Name    runtime.Tenant `json:"name"`
	Policy  string         `json:"policy"`      // the file or folder of its rules
	Digest  string         `json:"digest"`      // of the policy in it, "" when it cannot be read
	Secrets int            `json:"credentials"` // stored
	Tokens  int            `json:"tokens"`      // valid
	Pending int            `json:"pending_approvals"`
}

// Tenant is the tenant whose things this App shows and changes.
func (a *App) Tenant() runtime.Tenant { return a.tenant }

// checkTenant refuses a tenant that was never made: a mistyped name must not
// become a new one, with a policy and a vault of its own.
func (a *App) checkTenant() error {
	if slices.Contains(a.Tenants(), a.tenant) {
		return nil
	}
	return a.noTenant(a.tenant)
}

func (a *App) noTenant(name runtime.Tenant) error {
	e := &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound,
		Msg:  fmt.Sprintf("there is no tenant %.80q", string(name)),
		Hint: "kimbap tenant list",
	}
	if a.Shares() && tenants.IsName(string(name)) {
		e.Msg += " here"
		e.Hint = fmt.Sprintf("kimbap tenant create %s --join, where another home that shares the store has made it", name)
	}
	var names []string
	for _, t := range a.Tenants() {
		names = append(names, string(t))
	}
	if near := runtime.Nearest(string(name), names); near != "" {
		e.Msg += fmt.Sprintf("; did you mean %s?", near)
	}
	return e
}

// CreateTenant makes a tenant: a folder, and in it a policy that says the
// defaults. Its keys are made when something is first sealed for it. A name under
// which something of an earlier tenant is kept is refused: it would be the new one's.
func (a *App) CreateTenant(ctx context.Context, name runtime.Tenant, strict bool) error {
	return a.createTenant(ctx, name, strict, "tenant.create", func(keeps bool) error {
		if !keeps {
			return nil
		}
		e := &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("things of an earlier tenant %s are still stored, which a new one must not get", name),
			Hint: fmt.Sprintf("put its folder %s back, or remove them: kimbap tenant remove %s --force", a.home.Tenant(name), name),
		}
		if a.Shares() {
			e.Msg = fmt.Sprintf("there is a tenant %s already, which another home that shares the store has made", name)
			e.Hint = fmt.Sprintf("give it its rules here: kimbap tenant create %s --join", name)
		}
		return e
	})
}

// JoinTenant gives a tenant that another home has made, with which this one shares its
// store, the folder and the rules that it lacks here.
func (a *App) JoinTenant(ctx context.Context, name runtime.Tenant, strict bool) error {
	return a.createTenant(ctx, name, strict, "tenant.join", func(keeps bool) error {
		switch {
		case !a.Shares():
			return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "this home shares its store with no other one", Hint: fmt.Sprintf("kimbap tenant create %s", name)}
		case !keeps:
			return &runtime.Error{
				Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: fmt.Sprintf("the shared store has nothing of a tenant %s", name),
				Hint: fmt.Sprintf("compare the name with kimbap tenant list on another machine; a new one: kimbap tenant create %s", name),
			}
		}
		return nil
	})
}

// createTenant makes a tenant here, if may agrees, which is told whether anything is stored
// under its name.
func (a *App) createTenant(ctx context.Context, name runtime.Tenant, strict bool, kind string, may func(keeps bool) error) error {
	if !tenants.IsName(string(name)) {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("%q is no name of a tenant: at most 63 small letters, digits and -, no - first", string(name)),
			Hint: "kimbap tenant create acme",
		}
	}
	if slices.Contains(a.Tenants(), name) {
		return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("there is a tenant %s already", name), Hint: "kimbap tenant list"}
	}
	if a.config.Current().Policy.Tenants != "" {
		if _, err := policy.Read(a.PolicyFileOf(name)); err != nil {
			return runtime.Invalid(err, "put its policy there first")
		}
	}
	keeps, err := a.store.KeepsOf(ctx, name)
	if err == nil {
		err = may(keeps)
	}
	if err != nil {
		return err
	}
	born, err := a.birth(ctx, name)
	if err != nil {
		return err
	}
	event := record.Event{Kind: kind, Principal: a.Operator().ID, Tenant: name, Fields: map[string]string{"name": string(name)}}
	return a.within(ctx, event, func() error {
		if err := a.tenants().Make(name, strict, born); err != nil {
			return fmt.Errorf("make tenant %s: %w", name, err)
		}
		return nil
	})
}

// ruled is the policy, which says of a tenant without rules what is missing: where homes
// share a store its tokens are good on all their machines, and its rules are files of one.
type ruled struct{ a *App }

var _ runtime.Decider = ruled{}

// Decide implements [runtime.Decider].
func (r ruled) Decide(q runtime.Question) runtime.Verdict {
	v := r.a.policy.Decide(q)
	if v.Effect == runtime.EffectDeny && q.Principal != nil && r.a.policy.Current(q.Principal.Tenant) == nil {
		v.Reason = fmt.Sprintf("this kimbap has no rules for the tenant %s", q.Principal.Tenant)
		if r.a.Shares() {
			v.Reason += ", which another one that shares its store has made"
			v.Fix = fmt.Sprintf("the owner of this kimbap gives it its rules here: kimbap tenant create %s --join", q.Principal.Tenant)
		}
	}
	return v
}

// ListTenants says of every tenant what it has.
func (a *App) ListTenants(ctx context.Context) ([]Tenant, error) {
	out := []Tenant{}
	for _, name := range a.Tenants() {
		one := Tenant{Name: name, Policy: a.PolicyFileOf(name)}
		if p := a.policy.Current(name); p != nil {
			one.Digest = p.Digest()
		}
		secrets, err := a.vault.List(ctx, name)
		if err != nil {
			return nil, err
		}
		tokens, err := a.identity.List(ctx, name)
		if err != nil {
			return nil, err
		}
		pending, err := a.pending(ctx, name)
		if err != nil {
			return nil, err
		}
		now := a.o.Clock()
		for _, t := range tokens {
			if t.Valid(now) {
				one.Tokens++
			}
		}
		one.Secrets, one.Pending = len(secrets), pending
		out = append(out, one)
	}
	return out, nil
}

// scoped keeps a query of the trail to this App's tenant. What belongs to no
// tenant, the start of a proxy or a caller that nobody knows, is the default one's.
func (a *App) scoped(q RecordQuery) RecordQuery {
	switch q.Tenant {
	case AllTenants:
		q.Tenant = ""
	default:
		q.Tenant, q.Home = a.tenant, a.tenant == runtime.DefaultTenant
		q.Born = a.tenants().Born(a.tenant)
	}
	return q
}
