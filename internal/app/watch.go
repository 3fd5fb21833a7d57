package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/resource"
	"github.com/kimbap-run/kimbap/internal/roster"
	"github.com/kimbap-run/kimbap/proxy"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/policy"
	"github.com/kimbap-run/kimbap/services"
)

// watchEvery is how often a long-lived process looks for what others changed.
// Revocation and reload take effect within a second everywhere; this leaves
// three quarters of it to spare.
const watchEvery = 250 * time.Millisecond

// watch keeps a long-lived process in step with its home until ctx ends:
// secrets and tokens by the store's change counter, services, policy and the
// root of the authority by their files. A call on kick reloads the files at once.
// What is served is told of it.
func (a *App) watch(ctx context.Context, kick <-chan os.Signal, f follower) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	counter, _ := a.store.Changes(ctx)
	a.takeUp(ctx) // since the home was opened somebody may have changed what was read
	a.caughtUp(counter)
	looks := 0
	files, last, trail := a.files, a.files, ""
	a.tookUp(files)
	var idle resource.Idleness
	for {
		forced := false
		select {
		case <-ctx.Done():
			return
		case <-kick:
			forced = true
		case <-tick.C:
		}
		if now, err := a.store.Changes(ctx); err != nil || now != counter {
			a.takeUp(ctx) // a store that does not answer may hide a revocation
			counter = now
			if err == nil {
				a.caughtUp(now)
			}
		}
		// A file that changes from one look to the next is still being written: half
		// of a policy can be a valid one that allows more.
		now := a.fingerprint()
		if forced || now != files && now == last {
			files = now
			a.reload(ctx, f)
			f.reloaded()
			a.tookUp(files)
		}
		last = now
		if a.Locked() != nil {
			a.dropLive()
			a.unlock(ctx)
		}
		f.look(ctx)
		if looks++; looks%spaceEvery == 1 {
			a.checkSpace()
		}
		if said := a.trailState(); said != trail {
			trail = said
			a.writeState()
		}
		if err := a.strangers.tell(ctx, false); err != nil {
			a.o.Log.Error().Err(err).Msg("refused callers not recorded")
		}
		idle.Rest()
	}
}

// takeUp has what is stored read again.
func (a *App) takeUp(ctx context.Context) {
	a.followVault(ctx)
	a.vault.Forget()
	a.identity.Forget()
	a.rest.Forget()
}

// follower is what is served over a home, and follows what the watch sees.
type follower interface {
	permit(all ...*services.Service) // told of services before they are in force
	reloaded()                       // after services and policy were read again
	look(ctx context.Context)        // at each look
}

// proxied is a proxy, with what it signs with.
type proxied struct {
	signing
	server *proxy.Server
}

func (p proxied) reloaded() { p.server.Reloaded() }

func (p proxied) look(ctx context.Context) {
	p.a.refreshCA(ctx, p.signing)
	p.a.run.lease.look(ctx) // before tunnels are closed because of a token that slept
	p.server.Recheck(ctx)
	p.a.pass.look(ctx)
}

// unproxied is what signs nothing and holds no connection open.
type unproxied struct{}

func (unproxied) permit(...*services.Service) {}
func (unproxied) reloaded()                   {}
func (unproxied) look(context.Context)        {}

// caughtUp tells, in the state file, up to which change of the store this process
// works with what is stored now.
func (a *App) caughtUp(counter int64) {
	a.seen.Store(counter)
	a.writeState()
}

// tookUp tells, in the state file, which files this process last read its services
// and policies from, or tried to: what is wrong with them stands there too.
func (a *App) tookUp(files string) {
	sum := shortSum(files)
	a.read.Store(&sum)
	a.writeState()
}

// shortSum stands for a fingerprint where another process compares it.
func shortSum(fingerprint string) string {
	sum := sha256.Sum256([]byte(fingerprint))
	return hex.EncodeToString(sum[:8])
}

// reachLimit is how long [App.Reach] waits: a change of a file is taken up at the
// second look that sees it, and reading takes a moment.
const reachLimit = 8 * watchEvery

// Reach returns when everything that serves over the home works with what is stored
// now and has read the services and policies that are there now: who is told then
// that a secret was replaced, a token revoked or a service installed meets what was
// there before nowhere. It returns those that have not got there within two seconds.
func (a *App) Reach(ctx context.Context) []Running {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	counter, err := a.store.Changes(ctx)
	if err != nil {
		return nil
	}
	for {
		files := shortSum(a.fingerprint())
		behind := slices.DeleteFunc(a.states().Serving(roster.Any), func(r Running) bool {
			return r.Seen >= counter && (r.Files == files || a.unread != nil) // an unread configuration does not say which files
		})
		if len(behind) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return behind
		case <-time.After(10 * time.Millisecond):
		}
	}
}

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
	a.services.Swap(set)
	a.policy.Swap(fresh)
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
	sort.Strings(names)
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
