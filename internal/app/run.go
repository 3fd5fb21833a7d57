package app

import (
	"cmp"
	"context"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/internal/lease"
	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/internal/runner/netns"
	"github.com/kimbap-run/kimbap/internal/tally"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// RunOptions are those of `kimbap run`.
type RunOptions = outfit.Run

// Run starts a program behind a proxy of its own and returns its exit code.
// The proxy, its certificates and its token end with the program.
func (a *App) Run(ctx context.Context, o RunOptions) (int, error) {
	if !o.NoCover {
		if err := a.withhold(); err != nil {
			return 0, err
		}
	}
	known, err := catalog.Heads()
	if err != nil {
		return 0, err
	}
	ca, err := a.runCA(ctx, known)
	if err != nil {
		return 0, err
	}
	o.Signals = runner.Catch() // one that comes now would leave the folder behind
	defer o.Signals.Stop()
	folder, err := o.NewFolder(ca.RootPEM(), a.env)
	if err != nil {
		return 0, err
	}
	defer folder.Remove()
	token, info, err := a.CreateToken(ctx, TokenGrant{
		Agent: o.Agent, Run: runtime.NewID("run", a.o.Clock()), Scopes: []string{"*"}, TTL: lease.TTL,
	})
	if err != nil {
		return 0, err
	}
	revoke := sync.OnceFunc(func() { a.endRun(context.WithoutCancel(ctx), info.ID, o.Say) })
	defer revoke()

	counter := &tally.Counter{}
	a.run = ofRun{unattended: o.Unattended, tally: counter, lease: a.leaseOf(info.ID)}
	socket, closeSocket := a.runSocket(folder.Dir, token, cmp.Or(o.Version, "devel"))
	defer closeSocket()
	p := &private{a: a, served: make(chan error, 1), options: ServeOptions{
		Listen: "127.0.0.1:0", RequireToken: true, DefaultToken: token, Unattended: o.Unattended, CA: ca, Tally: counter,
	}}
	p.ctx, p.stop = context.WithCancel(ctx)
	defer p.end()
	address, shown := netns.ProxyAddress, ""
	if !o.Isolate {
		if address, err = p.start(nil); err != nil {
			return 0, err
		}
		if a.nameless() { // in a network of its own the program is known by that
			shown = token.Reveal()
		}
	}
	place := folder.Place()
	place.Proxy, place.Token, place.Socket = runner.ProxyURL(address, shown), shown, socket
	place.Own, place.Served = a.env.Own(), a.servedHere()
	if err := folder.Settle(place); err != nil {
		return 0, err
	}
	code, err := a.startChild(ctx, o, place, known, p)
	if err == nil {
		p.end() // what is still running is counted too
		closeSocket()
		counts := counter.Counts()
		counts.Undecided = a.undecided(context.WithoutCancel(ctx), runtime.Principal{ID: info.Principal(), Tenant: info.Tenant})
		revoke() // before it says anything: whoever should read that may hold it up
		folder.Remove()
		counts.Say(o, "")
	}
	return code, err
}

// A run whose token could not be ended tries again before it says so: another process may
// have kept the database for a moment.
const (
	endTries = 3
	endPause = 200 * time.Millisecond
)

// endRun ends the token of a run that is over.
func (a *App) endRun(ctx context.Context, id string, say func(line string)) {
	_, err := a.RevokeToken(ctx, id)
	for n := 1; err != nil && n < endTries; n++ {
		time.Sleep(endPause)
		_, err = a.RevokeToken(ctx, id)
	}
	if err == nil {
		return
	}
	a.o.Log.Error().Err(err).Str("token", id).Msg("the token of this run was not revoked")
	if say != nil {
		say("the token of this run could not be revoked: " + runtime.Said(err) + "; it is good until it expires, or: " + runtime.Command(a.tenant, "token revoke "+id))
	}
}

// private is the proxy of one run.
type private struct {
	a       *App
	ctx     context.Context //nolint:containedctx // of the run, which this belongs to
	stop    context.CancelFunc
	options ServeOptions
	served  chan error
	started bool
}

// start serves until the end, in the room of an isolated run where there is
// one, and returns where.
func (p *private) start(room *netns.Room) (address string, err error) {
	ready := make(chan net.Addr, 1)
	p.options.Room = room
	p.options.Ready = func(addr net.Addr) { ready <- addr }
	p.started = true
	go func() { p.served <- p.a.Serve(p.ctx, p.options) }()
	select {
	case err := <-p.served:
		p.started = false
		if err == nil {
			err = p.ctx.Err()
		}
		return "", err
	case addr := <-ready:
		return addr.String(), nil
	}
}

// end stops it and waits for its last record. It may be called again.
func (p *private) end() {
	p.stop()
	if p.started {
		<-p.served
		p.started = false
	}
}

// runCA makes a root that only this run's program trusts. It signs for what is
// installed and for what the catalogue holds, so that a service can be linked
// while the program runs; then its key is forgotten.
func (a *App) runCA(ctx context.Context, known outfit.Catalogue) (*certs.Authority, error) {
	ca, err := certs.New(certs.Options{Sealer: a.vault.Master(), Clock: a.o.Clock, AnyHost: a.interceptsAll()})
	if err != nil {
		return nil, err
	}
	if err := ca.Open(ctx); err != nil {
		return nil, err
	}
	signing{a, ca}.permit(append(a.Services().Authorities(), known.Authorities()...)...)
	return ca, nil
}

// leaseOf is that of a run of this home, whose token was just made.
func (a *App) leaseOf(token string) *lease.Lease {
	prolong := func(ctx context.Context) (time.Duration, bool, error) { return a.ProlongToken(ctx, token, lease.TTL) }
	failed := func(err error) { a.o.Log.Warn().Err(err).Msg("the token of this run was not prolonged") }
	return lease.New(a.o.Clock, lease.TTL, prolong, failed)
}

func (a *App) startChild(ctx context.Context, o RunOptions, place runner.Place, known outfit.Catalogue, p *private) (int, error) {
	placeholders, linked, err := a.Placeholders(ctx)
	if err != nil {
		return 0, err
	}
	place.Placeholders = placeholders
	if err := a.sayHalfKeys(ctx, o.Say); err != nil {
		return 0, err
	}
	isSecret, err := a.storedValues(ctx)
	if err != nil {
		return 0, err
	}
	home, err := filepath.Abs(a.home.Dir)
	if err != nil {
		return 0, err
	}
	options := o.Program(a.o.Env, place, known)
	options.UserDir, options.IsSecret, options.Placeholder = a.env.UserDir(), isSecret, known.StandsIn(a.placeholder)
	options.GitHosts = outfit.GitHosts(a.hostsOf, linked)
	if !o.NoCover {
		options.Cover = a.covers(home)
		options.Covered = func() { a.warnRules(o.Say) }
	}
	if o.Isolate {
		options.Isolate = &runner.Isolation{
			Authorities: a.authorities(),
			Serve:       func(room *netns.Room) error { _, err := p.start(room); return err },
		}
	}
	return runner.Run(options)
}

// sayHalfKeys names the keys that give a program no placeholder, because what goes with them is
// not stored: its SDKs do not start, and say nothing of kimbap.
func (a *App) sayHalfKeys(ctx context.Context, say func(string)) error {
	_, half, err := a.keyed(ctx)
	for _, s := range half {
		if len(s.Placeholders) > 0 {
			say("the key of " + s.Name + " is not used before the user name that goes with it is stored: " + runtime.Command(a.tenant, "vault set "+s.Auth.UsernameRef))
		}
	}
	return err
}

// hostsOf are the host:port of the installed service of that name, none when there is none.
func (a *App) hostsOf(name string) []string {
	s, ok := a.Services().Service(name)
	if !ok {
		return nil
	}
	return s.Authorities
}

// authorities are the host:port of all installed services.
func (a *App) authorities() []string {
	return slices.Concat(a.Services().Authorities()...)
}

// Covering is what the covering process of a run is told; see runner.Covered.
type Covering = runner.Covering

// Covered is the covering process of a run.
func Covered(c Covering) (int, error) { return runner.Covered(c) }

// storedValues returns a test for values that the vault holds, so that a
// variable which carries one under any name does not reach the program. A
// locked vault cannot tell; then only the usual names are taken away.
func (a *App) storedValues(ctx context.Context) (func(string) bool, error) {
	if a.vault.Locked() {
		return func(string) bool { return false }, nil
	}
	var holding []func(string) bool
	for _, tenant := range a.Tenants() { // no program of one has a use for another's either
		of, err := a.vault.Holding(ctx, tenant, shortestPart, a.Services().OpenNames()...)
		if err != nil {
			return nil, err
		}
		holding = append(holding, of)
	}
	return func(value string) bool {
		return slices.ContainsFunc(holding, func(holds func(string) bool) bool { return holds(value) })
	}, nil
}

// shortestPart is how long a stored value must be, in bytes, to be looked for
// inside other values: a shorter one is in honest ones by chance.
const shortestPart = 4
