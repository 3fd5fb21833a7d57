package app

import (
	"context"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/internal/crowd"
	"github.com/kimbap-run/kimbap/internal/mask"
	"github.com/kimbap-run/kimbap/internal/resource"
	"github.com/kimbap-run/kimbap/internal/waiting"
	"github.com/kimbap-run/kimbap/proxy"
	"github.com/kimbap-run/kimbap/proxy/egress"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/connector"
	"github.com/kimbap-run/kimbap/runtime/identity"
	"github.com/kimbap-run/kimbap/runtime/limit"
	"github.com/kimbap-run/kimbap/runtime/policy"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/runtime/vault/wrap"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/command"
	"github.com/kimbap-run/kimbap/services/rest"
)

// The steps of [App.Open] that make the stages, from the store up.

func (a *App) openVault(ctx context.Context) (err error) {
	if a.wrapper, err = a.keyWrapper(a.keySource()); err != nil {
		return err
	}
	a.vault, err = vault.New(vault.Options{
		Store: a.store, Clock: a.o.Clock, Fetch: wrap.Commands{Env: a.o.Env, Timeout: fetchTimeout},
		Renew: a.renewKey, Words: record.Words, Parts: connector.Parts, Exists: a.tenants().Has,
	})
	if err != nil {
		return err
	}
	a.onClose(a.vault.Flush)
	if a.o.LogTo != nil {
		a.o.LogTo.Hide(a.vault.Live)
	}
	if a.storeless != nil {
		a.locked.Store(a.lockedStoreless(ctx))
		return nil
	}
	a.settleSeal(ctx)
	if err = a.ordered(ctx); err == nil && a.unread == nil {
		err = a.unlockVault(ctx)
	}
	if err == nil && a.unread != nil { // where the key is, only the configuration knows
		a.locked.Store(&runtime.Error{
			Code: runtime.CodeVaultLocked, Reason: runtime.ReasonKeyUnavailable, Msg: "the configuration cannot be read", Hint: "kimbap config show --origin", Err: a.unread,
		})
	}
	if err != nil && !a.startsLocked(err) {
		return err
	}
	return a.vault.Open(ctx)
}

func (a *App) openLimits(context.Context) (err error) {
	a.limiter, err = limit.New(limit.Options{Store: a.store})
	return err
}

func (a *App) openIdentity(context.Context) (err error) {
	a.identity, err = identity.New(identity.Options{Store: a.store, Clock: a.o.Clock})
	return err
}

func (a *App) openTrail(ctx context.Context) error {
	sinks, err := a.sinks()
	if err != nil {
		return err
	}
	slot, shared := a.o.Slot, false
	if slot == "" {
		slot, shared = SlotCLI, true
	}
	a.trail, err = audit.New(audit.Options{
		Dir: a.auditDir(), Slot: slot, Shared: shared, Clock: a.o.Clock,
		Sinks: sinks, SinksLast: a.sinksLast(sinks), Redact: redactor{a.vault}, Secrets: a.vault.Live, SegmentAge: a.segmentAge(), Linger: a.linger(),
		SinksElsewhere: a.sinksElsewhere(), SinksUnknown: a.unread != nil,
		OnError:   func(err error) { a.o.Log.Error().Err(err).Msg("audit trail") },
		OnArrears: a.sayArrears,
	})
	if err != nil {
		return err
	}
	if err := a.openWitness(); err != nil {
		return err
	}
	if err := a.trail.Open(ctx); err != nil {
		return err
	}
	a.onClose(a.closeWitness) // after the trail, whose last record it names
	a.onClose(a.trail.Close)
	a.crowded = crowd.New(a.trail, a.o.Clock)
	a.onClose(func(ctx context.Context) error { return a.crowded.Tell(ctx, true) })
	return nil
}

// masks take what is stored out of what people are shown.
func (a *App) masks() mask.Masks { return mask.Masks{Vault: a.vault, Forms: a.forms} }

func (a *App) openApprovals(context.Context) (err error) {
	tell := a.tell
	if len(a.config.Current().Approval.Notify) == 0 { // what nobody is told need not be masked
		tell = nil
	}
	a.approvals, err = approval.New(approval.Options{
		Store: a.store, Sealer: a.vault, Clock: a.o.Clock,
		NewID:   func() string { return runtime.NewID("apr", a.o.Clock()) },
		Terms:   approvalTerms(a.config.Current()),
		Tell:    tell,
		Process: a.neighbours.Holder, Alive: a.neighbours.Alive, Ended: a.requesterEnded, Late: a.toldLate, Mask: a.masks().Of,
	})
	if err != nil {
		return err
	}
	a.onClose(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, lateEnds)
		defer cancel()
		a.approvals.Close(ctx)
		return nil // said already, and what was executed is done
	})
	room := waiting.Options{Desk: a.approvals, Identity: a.identity}
	if a.o.Slot == "" { // which has no watch
		room.Every = watchEvery
	} else {
		a.witness.Start() // which forgets old ones
	}
	a.waiting = waiting.New(room)
	return nil
}

// lateEnds is how long the end of this process waits for a database that did not take
// how executions ended; the trail needs the rest of the time.
const lateEnds = 5 * time.Second

// toldLate logs an end of an execution that could not be written yet, and that it was.
func (a *App) toldLate(id string, err error) {
	if err != nil {
		a.o.Log.Error().Err(err).Str("approval", id).Msg("how the execution of an approval ended could not be stored")
		return
	}
	a.o.Log.Info().Str("approval", id).Msg("how the execution of an approval ended is stored now")
}

func (a *App) openConnector(context.Context) (err error) {
	var opens runtime.Vault = a.vault
	if a.o.Slot == "" {
		opens = shortLived{a}
	}
	if a.connector, err = a.newConnector(opens); err != nil {
		return err
	}
	a.onClose(a.connector.Close)
	return nil
}

func (a *App) openPipeline(context.Context) (err error) {
	a.pipeline, err = runtime.New(a.stages())
	return err
}

// stages are those of the pipeline.
func (a *App) stages() runtime.Options {
	return runtime.Options{
		Identity: a.identity, Services: a.services, Policy: ruled{a}, Limits: a.limiter,
		Approvals: a.waiting, Vault: a.connector, Trail: a.recordedTrail(),
		Backends: a.backends(),
		Clock:    a.o.Clock,
		NewID:    func() string { return runtime.NewID("req", a.o.Clock()) },
	}
}

func (a *App) loadServices(context.Context) error {
	a.files = a.asRead()
	set, err := a.readServices()
	if err != nil && a.o.Despite {
		a.fault = err
		set, err = a.readableServices()
	}
	if err != nil {
		return err
	}
	a.services = services.NewLive(set)
	return nil
}

// ConfigFault says why the configuration cannot be read, nil when it is in force.
func (a *App) ConfigFault() error { return a.unread }

// readableServices are those of the installed services that can be read by
// themselves, none when not even they go together.
func (a *App) readableServices() (*services.Set, error) {
	var good []*services.Service
	names, _ := filepath.Glob(filepath.Join(a.home.Services(), "*.yaml"))
	for _, name := range names {
		if s, err := services.LoadOne(a.home.Services(), strings.TrimSuffix(filepath.Base(name), ".yaml")); err == nil {
			good = append(good, s)
		}
	}
	if set, err := services.NewSet(good); err == nil {
		return set, nil
	}
	return services.NewSet(nil)
}

// Fault says what is wrong with the files of the policy and the services, nil
// when nothing is or the home was not opened despite it.
func (a *App) Fault() error { return a.fault }

// readServices loads the installed services, or those that Options.Only names.
func (a *App) readServices() (*services.Set, error) {
	if a.o.Only != nil && !a.hasProject() {
		if some, ok := a.someServices(); ok {
			set, err := services.NewSet(some)
			return set, runtime.Invalid(err, "kimbap service remove one of the two")
		}
	}
	all, err := a.withProject(func() ([]*services.Service, error) { return services.LoadDir(a.home.Services()) })
	if err != nil {
		return nil, runtime.Invalid(err, "kimbap service validate "+runtime.Quote(a.home.Services())+"/*.yaml")
	}
	set, err := services.NewSet(all)
	return set, runtime.Invalid(err, "kimbap service remove one of the two")
}

// someServices loads the services that Options.Only names, and those of their hosts.
// It is false when one of them is an alias, or nothing: only the whole set can tell.
func (a *App) someServices() ([]*services.Service, bool) {
	var out []*services.Service
	for _, word := range a.o.Only {
		var one *services.Service
		for _, name := range sandbox.ServiceNames(word) {
			if s, err := services.LoadOne(a.home.Services(), name); err == nil {
				one = s
				break
			}
		}
		if one == nil {
			return nil, false
		}
		if !slices.ContainsFunc(out, func(s *services.Service) bool { return s.Name == one.Name }) {
			out = append(out, one)
		}
	}
	return services.Neighbours(a.home.Services(), out)
}

// ServicesOf are the services that a script names, as Options.Only takes them; nil
// when it may use any.
func ServicesOf(source string) []string {
	words, ok := sandbox.NamedServices(source)
	if !ok {
		return nil
	}
	return words
}

func (a *App) loadPolicy(context.Context) error {
	set, wrong := a.rules().Read(a.services.Current())
	err := wrong.Err()
	if err != nil && !a.o.Despite {
		return err
	}
	if a.fault == nil { // without its services a good policy has faults too
		a.fault = err
	}
	a.policy = policy.NewLive(set)
	return nil
}

func (a *App) openBackends(context.Context) error {
	roots, err := a.upstreamRoots()
	if err != nil {
		return err
	}
	c := a.config.Current()
	guard, err := a.newGuard(c)
	if err != nil {
		return err
	}
	a.guard = egress.NewLive(guard)
	a.rest, err = rest.New(rest.Options{
		Dialer: a.dialer(), Hold: a.hold, TLS: certs.Upstream(nil), Roots: roots, Placeholders: a.placeholder, PlaceholderIn: a.placeholderIn,
		Times:           restTimes(c),
		IdleConnections: resource.Share(resource.Descriptors()).Idle,
		ScrubStrict:     scrubStrict(c),
		Clock:           a.o.Clock,
		Engine:          rest.Engine(c.Proxy.Engine),

		VerifyMutations: c.Debug.Mutations == "verify",
	})
	if err != nil {
		return err
	}
	a.onClose(func(context.Context) error { a.rest.Close(); return nil })
	if a.tunnel, err = proxy.NewTunnel(proxy.TunnelOptions{
		Dialer: a.dialer(), Hold: a.hold, Limits: a.limits(),
		Idle: func() time.Duration { return a.config.Current().Upstream.IdleTimeout.Duration() },
	}); err != nil {
		return err
	}
	a.command, err = command.New(command.Options{Env: a.o.Env, Dir: a.o.Dir, Mask: a.rest.Mask, System: goruntime.GOOS})
	return err
}

// backends are what executes actions, by the name that an action gives.
func (a *App) backends() map[string]runtime.Backend {
	return map[string]runtime.Backend{"rest": a.rest, "tunnel": a.tunnel, "command": a.command}
}

// placeholder tells whether a value is the placeholder of an installed service.
func (a *App) placeholder(value string) (string, bool) {
	return a.services.Current().Placeholder(value)
}

// placeholderIn tells whether the name of a field holds one.
func (a *App) placeholderIn(name string) (string, bool) {
	return a.services.Current().PlaceholderIn(name)
}
