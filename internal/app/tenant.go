package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kimbap-run/kimbap/internal/home"
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

// Tenants lists the tenants there are: the default one first, which always is,
// then those that have a folder, by name.
func (a *App) Tenants() []runtime.Tenant {
	out := []runtime.Tenant{runtime.DefaultTenant}
	entries, _ := os.ReadDir(a.home.Tenants()) // sorted; a home without it has one tenant
	for _, e := range entries {
		if e.IsDir() && tenantName(e.Name()) && e.Name() != string(runtime.DefaultTenant) {
			out = append(out, runtime.Tenant(e.Name()))
		}
	}
	return out
}

// tenantName keeps names to what can be a folder everywhere, so that no two of
// them are one folder.
func tenantName(name string) bool {
	for i, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' && i > 0) {
			return false
		}
	}
	return name != "" && len(name) <= 63
}

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
	if a.Shares() && tenantName(string(name)) {
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
	if !tenantName(string(name)) {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("%q is no name of a tenant: at most 63 small letters, digits and -, no - first", string(name)),
			Hint: "kimbap tenant create acme",
		}
	}
	if slices.Contains(a.Tenants(), name) {
		return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("there is a tenant %s already", name), Hint: "kimbap tenant list"}
	}
	if a.config.Current().Policy.Tenants != "" {
		if _, err := policy.Read(a.policyFileOf(name)); err != nil {
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
	err = a.trail.Event(ctx, record.Event{Kind: kind, Principal: a.Operator().ID, Tenant: name, Fields: map[string]string{"name": string(name)}})
	if err != nil {
		return err
	}
	if err := a.makeTenant(name, strict, born); err != nil {
		return fmt.Errorf("make tenant %s: %w", name, err)
	}
	return nil
}

// makeTenant makes the folder of a tenant.
func (a *App) makeTenant(name runtime.Tenant, strict bool, born time.Time) error {
	if err := os.MkdirAll(a.home.Tenants(), 0o700); err != nil {
		return err
	}
	// Made aside and moved into its place, policy and all: a proxy that looks
	// meanwhile sees no tenant, or the whole one.
	aside, err := os.MkdirTemp(a.home.Tenants(), ".new-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(aside)
	if err := home.Replace(filepath.Join(aside, policyName), policy.DefaultFile(strict), 0o600); err != nil {
		return err
	}
	if err := home.Replace(filepath.Join(aside, madeName), []byte(born.Format(time.RFC3339Nano)+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(aside, a.home.Tenant(name))
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
		one := Tenant{Name: name, Policy: a.policyFileOf(name)}
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
			if t.Revoked.IsZero() && now.Before(t.Expires) {
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
		q.Born = a.born(a.tenant)
	}
	return q
}
