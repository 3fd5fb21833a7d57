package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/identity"
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
	if !tenantName(string(name)) {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("%q is no name of a tenant: at most 63 small letters, digits and -, no - first", string(name)),
			Hint: "kimbap tenant create acme",
		}
	}
	if slices.Contains(a.Tenants(), name) {
		return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("there is a tenant %s already", name), Hint: "kimbap tenant list"}
	}
	if a.config.Policy.Tenants != "" {
		if _, err := policy.Read(a.policyFileOf(name)); err != nil {
			return runtime.Invalid(err, "put its policy there first")
		}
	}
	if keeps, err := a.store.KeepsOf(ctx, name); err != nil {
		return err
	} else if keeps {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("things of an earlier tenant %s are still stored, which a new one must not get", name),
			Hint: fmt.Sprintf("put its folder %s back, or remove them: kimbap tenant remove %s --force", a.home.Tenant(name), name),
		}
	}
	born, err := a.birth(ctx, name)
	if err != nil {
		return err
	}
	err = a.trail.Event(ctx, record.Event{Kind: "tenant.create", Principal: a.Operator().ID, Tenant: name, Fields: map[string]string{"name": string(name)}})
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

// policyName is the file of a tenant's rules in its folder.
const policyName = "policy.yaml"

// policyFile is where the rules of this App's tenant are.
func (a *App) policyFile() string { return a.policyFileOf(a.tenant) }

// policyFileOf is where the rules of a tenant are: for the default one
// policy.path or the home's own; for others NAME.yaml or NAME in the folder
// policy.tenants, or the file in the tenant's folder of the home.
func (a *App) policyFileOf(t runtime.Tenant) string {
	if t == runtime.DefaultTenant {
		if path := a.config.Policy.Path; path != "" {
			return path
		}
		return a.home.Policy()
	}
	if folder := a.config.Policy.Tenants; folder != "" {
		path := filepath.Join(folder, string(t))
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return path
		}
		return path + ".yaml"
	}
	return filepath.Join(a.home.Tenant(t), policyName)
}

// readPolicies reads the policies of all tenants, each by itself: one that is not
// in the set is in the faults.
func (a *App) readPolicies(actions policy.Actions) (policy.Set, faults) {
	set, wrong := policy.Set{}, faults{}
	for _, t := range a.Tenants() {
		p, err := a.readPolicy(t, actions)
		if err != nil {
			wrong[t] = err
			continue
		}
		set[t] = p
	}
	return set, wrong
}

// faults are why policies cannot be read, by tenant.
type faults map[runtime.Tenant]error

// err is all of them as one, nil when there is none.
func (f faults) err() error {
	var all []error
	for _, t := range slices.Sorted(maps.Keys(f)) {
		all = append(all, f[t])
	}
	if len(all) == 1 {
		return all[0]
	}
	return runtime.Invalid(errors.Join(all...), "correct the files; see what is in force with: kimbap status")
}

// policyIsThere refuses a tenant that was made and has lost its rules.
func (a *App) policyIsThere(t runtime.Tenant) error {
	if t == runtime.DefaultTenant {
		return nil
	}
	path := a.policyFileOf(t)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("tenant %s has no policy: there is no %s", t, path), Err: err,
			Hint: fmt.Sprintf("put it back, or begin with a copy of the default tenant's: cp %s %s", runtime.Quote(a.policyFileOf(runtime.DefaultTenant)), runtime.Quote(path)),
		}
	}
	return nil
}

// readPolicy loads a tenant's policy, its conditions checked against the actions;
// proxy.unmatched: deny narrows it for hosts that have no service. That of a tenant
// that was made must be there: one that was moved away, or not mounted, is no
// default, which may allow more than it did.
func (a *App) readPolicy(t runtime.Tenant, actions policy.Actions) (*policy.Policy, error) {
	path := a.policyFileOf(t)
	if !strings.HasPrefix(path, a.home.Dir+string(filepath.Separator)) {
		for _, name := range policy.Names(path) {
			if err := home.CheckWriters(name, a.o.UID); err != nil {
				return nil, err
			}
		}
	}
	if err := a.policyIsThere(t); err != nil {
		return nil, err
	}
	p, err := policy.Load(path, actions)
	if err != nil {
		return nil, runtime.Invalid(err, "correct the file; see what is in force with: kimbap status")
	}
	if a.config.Proxy.Unmatched == "deny" {
		p = p.DenyUnmatched()
	}
	return p, nil
}

// Operator is the owner at the terminal, acting for the tenant of this App, or
// whose [App.seat] this is.
func (a *App) Operator() runtime.Principal {
	if a.seated != nil {
		return *a.seated
	}
	me := identity.Operator(a.o.UID)
	me.Tenant = a.tenant
	return me
}

// Caller is who a command acts as: the token of KIMBAP_TOKEN, else the owner. A
// tenant that was asked for by name must be the caller's: no command acts as
// another tenant than it was told, and only a token is of another than the default.
func (a *App) Caller(ctx context.Context) (runtime.Caller, error) {
	caller := a.Local()
	caller.Token = runtime.NewSecret(a.env["KIMBAP_TOKEN"])
	if a.o.Tenant == "" || a.o.Tenant == runtime.DefaultTenant && caller.Token.Empty() {
		return caller, nil
	}
	me, err := a.identity.Identify(ctx, caller)
	if err == nil && me.Tenant != a.tenant {
		err = &runtime.Error{
			Code: runtime.CodeUnauthenticated, Reason: runtime.ReasonNoToken, Stage: runtime.StageIdentify,
			Msg:  fmt.Sprintf("this acts as an agent, and KIMBAP_TOKEN holds no token of tenant %s", a.tenant),
			Hint: "export KIMBAP_TOKEN=$(kimbap --tenant " + string(a.tenant) + " token create --agent me --scope '*')",
		}
	}
	return caller, err
}

// actsAs is the Caller's principal.
func (a *App) actsAs(ctx context.Context) (runtime.Principal, error) {
	caller, err := a.Caller(ctx)
	if err != nil {
		return runtime.Principal{}, err
	}
	return a.identity.Identify(ctx, caller)
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
