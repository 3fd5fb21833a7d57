package app

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/internal/resource"
	"github.com/kimbap-run/kimbap/proxy"
	"github.com/kimbap-run/kimbap/runtime"
)

// watchEvery is how often a long-lived process looks for what others changed.
// Revocation and reload take effect within a second everywhere; this leaves
// three quarters of it to spare.
const watchEvery = 250 * time.Millisecond

// watch keeps a long-lived process in step with its home until ctx ends:
// secrets and tokens by the store's change counter, configuration, services, policy and
// the root of the authority by their files. A call on kick reloads the files at once.
// What is served is told of it.
func (a *App) watch(ctx context.Context, kick <-chan os.Signal, f follower) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	defer a.keyAsked.end()
	ctx = context.WithValue(ctx, looking{}, true)
	counter := a.followStore(ctx, unknownChange) // since the home was opened somebody may have changed what was read
	looks := 0
	files, last, trail := a.files, a.files, ""
	a.tookUp(files.home)
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
		looked := a.pulse.Looks()
		counter = a.followStore(ctx, counter)
		// A file that changes from one look to the next is still being written: half
		// of a policy can be a valid one that allows more.
		now := a.look()
		if forced || now != files && now == last {
			files = a.reload(ctx, f)
			a.tookUp(files.home)
			looked()
		} else if now == files {
			looked()
		}
		last = now
		if a.Locked() != nil {
			a.dropLive()
			a.unlock(ctx)
		}
		a.keyAsked.looked()
		a.stay()
		f.look(ctx)
		a.waiting.Look(ctx) // after a run had its token made good again
		if looks++; looks%spaceEvery == 1 {
			a.checkSpace()
		}
		if said := a.trailState(); said != trail {
			trail = said
			a.writeState()
		}
		a.crowded.Tell(false)
		idle.Rest()
	}
}

// watching is watch beside what this process serves, until stop is called and not until ctx
// ends: what has begun by then goes on for seconds, and a token that is revoked in them must
// not. Stop waits until the watch has ended: nothing is read, recorded or said in the home's
// name after what it belongs to.
func (a *App) watching(ctx context.Context, kick <-chan os.Signal, f follower) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() { a.pulse.Keep(ctx) })
	done.Go(func() { a.watch(ctx, kick, f) })
	done.Go(func() { a.keepUses(ctx) })
	done.Go(func() { a.keepTold(ctx) })
	return func() { cancel(); done.Wait() }
}

// unknownChange is a change counter that no store has.
const unknownChange = -1

// lateAnswer is when a store that is asked for changes has not answered in time: a database
// that hangs keeps the question for longer than a revocation may take.
const lateAnswer = 2 * watchEvery

// followStore takes up what was changed in the store since it had a counter, and returns
// the counter up to which all is known. A store that does not answer may hide a
// revocation or a lock: it is asked again at the next look, and what was read of it is
// forgotten each time, without waiting for long until it has not answered.
func (a *App) followStore(ctx context.Context, counter int64) int64 {
	l, kept := a.keptLock()
	if kept && a.inForce(l) { // which is not for the store to say, or to be waited for
		_ = a.followVault(ctx)
	}
	late := time.AfterFunc(lateAnswer, a.forgetStored)
	now, err := a.store.Changes(ctx)
	late.Stop()
	a.noteStore(ctx, err)
	if err == nil && kept {
		a.tellLock(ctx)
	}
	if err == nil && now == counter && !kept && !a.pausesAgain() {
		a.unsure.Store(false)
		return now
	}
	followed := a.followVault(ctx)
	a.forgetStored()
	a.unsure.Store(err != nil || followed != nil)
	if err != nil || followed != nil {
		return unknownChange
	}
	a.caughtUp(now)
	return now
}

// noteStore keeps for health whether the store answers: while it does not, whatever needs it
// is refused.
func (a *App) noteStore(ctx context.Context, err error) {
	switch {
	case err == nil:
		a.silent.Store(nil)
	case ctx.Err() == nil: // else it is this process that ends
		e := runtime.AsError(err)
		if a.silent.Swap(e) == nil {
			a.o.Log.Error().Err(err).Msg("the store cannot be asked, so nothing that is stored is used")
		}
	}
}

// forgetStored drops what was read of the store.
func (a *App) forgetStored() {
	a.vault.Forget()
	a.identity.Forget()
	a.rest.Forget()
	a.forms.Forget()
}

// follower is what is served over a home, and follows what the watch sees.
type follower interface {
	cannot(next *config.Config) []string // live keys of a configuration that this process cannot take up
	configured()                         // after a configuration came into force
	permit(hosts ...[]string)            // told of those of each service before it is in force
	reloaded()                           // after all was read again
	look(ctx context.Context)            // at each look
}

// proxied is a proxy, with what it signs with.
type proxied struct {
	signing
	server *proxy.Server
}

// cannot is for the run that was not to look into foreign hosts: it has no key left to
// certify them with.
func (p proxied) cannot(next *config.Config) []string {
	if next.Proxy.Intercept != "all" {
		return nil
	}
	if ca, err := p.open(); err == nil && !ca.SignAny(true) { // a locked one opens as it is configured then
		return []string{"proxy.intercept"}
	}
	return nil
}

func (p proxied) configured() {
	if ca, err := p.open(); err == nil && !p.a.interceptsAll() {
		ca.SignAny(false) // not before: it may sign as long as it is asked
	}
}

func (p proxied) reloaded() { p.server.Reloaded() }

func (p proxied) look(ctx context.Context) {
	p.a.refreshCA(p.signing)
	p.a.run.lease.Look(ctx) // before tunnels are closed because of a token that slept
	p.server.Recheck(ctx)
	p.a.pass.Look(ctx)
}

// unproxied is what signs nothing and holds no connection open.
type unproxied struct{}

func (unproxied) cannot(*config.Config) []string { return nil }
func (unproxied) configured()                    {}
func (unproxied) permit(...[]string)             {}
func (unproxied) reloaded()                      {}
func (unproxied) look(context.Context)           {}
