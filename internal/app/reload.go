package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/policy"
)

// reload takes the services and the policies from their files. What cannot be read
// keeps its old state, and status, log and trail say so: the services, and each
// tenant's policy by itself, so that nobody's mistake keeps another's rules from
// being in force. The default tenant's policy and the services are the home's own
// and go together, both or neither.
func (a *App) reload(ctx context.Context, f follower) {
	problems := map[string]error{}
	set, err := a.readServices()
	if err != nil {
		problems["services"], set = err, a.services.Current()
	}
	fresh, wrong := a.readPolicies(set)
	if why := wrong[runtime.DefaultTenant]; why != nil && err == nil {
		set = a.services.Current()
		fresh, wrong = a.readPolicies(set)
		wrong[runtime.DefaultTenant] = why
		delete(fresh, runtime.DefaultTenant)
	}
	for t, err := range wrong {
		problems[policyField(t)] = err
	}
	old := a.policy.Current(runtime.DefaultTenant)
	if now := fresh[runtime.DefaultTenant]; err != nil && old != nil && now != nil && now.Digest() != old.Digest() {
		fresh[runtime.DefaultTenant] = old
		problems["policy"] = errors.New("the policy is taken up when the services can be read")
	}
	for _, t := range a.Tenants() {
		if old := a.policy.Current(t); fresh[t] == nil && old != nil {
			fresh[t] = old
		}
	}
	f.permit(set.Services()...) // before they are intercepted
	before := a.services.Current().Digest()
	a.services.Swap(set)
	a.policy.Swap(fresh)
	if set.Digest() != before {
		a.mcpSessions.toolsChanged()
	}
	a.sayReloaded(ctx, problems)
}

// sayReloaded tells what is in force, and what of it is old.
func (a *App) sayReloaded(ctx context.Context, problems map[string]error) {
	event := record.Event{Kind: "reload", Principal: "kimbap", Fields: map[string]string{"result": "ok", "services": a.services.Current().Digest()}}
	for _, t := range a.Tenants() {
		event.Fields[policyField(t)] = a.policy.Current(t).Digest()
	}
	if len(problems) == 0 {
		a.health.Store(nil)
		a.o.Log.Info().Msg("reloaded services and policy")
	} else {
		kept := slices.Sorted(maps.Keys(problems))
		var all []error
		for _, what := range kept {
			all = append(all, problems[what])
		}
		err := errors.Join(all...)
		text := err.Error()
		a.health.Store(&text)
		event.Fields["result"], event.Fields["kept"] = "kept the old state", strings.Join(kept, " ")
		a.o.Log.Error().Err(err).Msg("reload refused, the old state stays in force")
	}
	if err := a.trail.Event(ctx, event); err != nil {
		a.o.Log.Error().Err(err).Msg("reload not recorded")
	}
	a.writeState()
}

// policyField names the digest of a tenant's policy in a record.
func policyField(t runtime.Tenant) string {
	if t == runtime.DefaultTenant {
		return "policy"
	}
	return "policy:" + string(t)
}

// fingerprint changes when a file of the services or the policy does.
func (a *App) fingerprint() string {
	names, _ := filepath.Glob(filepath.Join(a.home.Services(), "*.yaml"))
	slices.Sort(names)
	var b strings.Builder
	names = append(names, a.home.Tenants()) // a tenant that comes or goes
	for _, t := range a.Tenants() {
		names = append(names, policy.Names(a.policyFileOf(t))...)
	}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil { // Stat follows links: a swapped symlink counts
			if inside, err := filepath.Rel(a.home.Dir, name); err == nil {
				name = inside // a home has another path where it is mounted
			}
			fmt.Fprintf(&b, "%s %d %d\n", name, info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}
