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

	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/policy"
)

// reload takes the configuration, the services and the policies from their files, and
// returns what those looked like. What cannot be read keeps its old state, and status, log
// and trail say so: the configuration, the services, and each tenant's policy by itself,
// so that nobody's mistake keeps another's rules from being in force. The default tenant's
// policy and the services are the home's own and go together, both or neither.
func (a *App) reload(ctx context.Context, f follower) looked {
	problems := map[string]error{}
	if next, err := a.readConfig(f); err != nil {
		problems["config"] = err
	} else {
		a.putInForce(next, f)
	}
	files := a.asRead() // before the rest is: it may name other files
	set, err := a.readServices()
	if err != nil {
		problems["services"], set = err, a.services.Current()
	}
	rules := a.rules()
	fresh, wrong := rules.Read(set)
	if why := wrong[runtime.DefaultTenant]; why != nil && err == nil {
		set = a.services.Current()
		fresh, wrong = rules.Read(set)
		wrong[runtime.DefaultTenant] = why
		delete(fresh, runtime.DefaultTenant)
	}
	for t, err := range wrong {
		problems[policyField(t)] = err
	}
	old := rules.Narrowed(a.policy.Current(runtime.DefaultTenant))
	if now := fresh[runtime.DefaultTenant]; err != nil && old != nil && now != nil && now.Digest() != old.Digest() {
		fresh[runtime.DefaultTenant] = old
		problems["policy"] = errors.New("the policy is taken up when the services can be read")
	}
	for _, t := range a.Tenants() {
		if old := rules.Narrowed(a.policy.Current(t)); fresh[t] == nil && old != nil {
			fresh[t] = old
		}
	}
	f.permit(set.Authorities()...) // before they are intercepted
	before := a.services.Current().Digest()
	a.services.Swap(set)
	a.policy.Swap(fresh)
	if set.Digest() != before {
		a.mcpSessions.toolsChanged()
	}
	f.reloaded()
	a.sayReloaded(ctx, problems)
	return files
}

// sayReloaded tells what is in force, and what of it is old.
func (a *App) sayReloaded(ctx context.Context, problems map[string]error) {
	event := record.Event{Kind: "reload", Principal: "kimbap", Fields: map[string]string{"result": "ok", "services": a.services.Current().Digest()}}
	for _, t := range a.Tenants() {
		event.Fields[policyField(t)] = a.policy.Current(t).Digest()
	}
	if waiting := a.waitingKeys(); len(waiting) > 0 {
		event.Fields["restart"] = strings.Join(waiting, " ")
		a.o.Log.Warn().Strs("keys", waiting).Msg("the configuration wants a restart")
	}
	if len(problems) == 0 {
		a.health.Store(nil)
		a.o.Log.Info().Msg("reloaded configuration, services and policy")
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
	a.trail.Note(event) // it has happened, and a mistake in a sink is put right by a reload
	a.writeState()
}

// policyField names the digest of a tenant's policy in a record.
func policyField(t runtime.Tenant) string {
	if t == runtime.DefaultTenant {
		return "policy"
	}
	return "policy:" + string(t)
}

// looked is what all files look like that a reload reads.
type looked struct {
	home  string // fingerprint
	named string // of the secrets that config.yaml names, which another process may not see
}

// look is what they look like now.
func (a *App) look() looked { return looked{a.fingerprint(), a.config.Look().Named} }

// asRead is what they look like, the configuration's when it was last read.
func (a *App) asRead() looked {
	seen := a.config.Seen()
	return looked{a.fingerprintOf(seen.File), seen.Named}
}

// fingerprint changes when a file of the configuration, the services or the policy does.
func (a *App) fingerprint() string { return a.fingerprintOf(config.Look(a.home.Config())) }

// fingerprintOf is fingerprint with config.yaml as it was seen.
func (a *App) fingerprintOf(configured string) string {
	names := system.Files(a.home.Services(), "", ".yaml")
	var b strings.Builder
	fmt.Fprintf(&b, "config.yaml %s\n", configured)
	names = append(names, a.home.Tenants()) // a tenant that comes or goes
	rules := a.rules()
	for _, t := range rules.All() {
		names = append(names, policy.Names(rules.File(t))...)
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
