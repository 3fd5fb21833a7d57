package app

import (
	"context"
	"errors"
	goruntime "runtime"
	"syscall"
	"time"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/internal/crowd"
	"github.com/kimbap-run/kimbap/internal/resource"
	"github.com/kimbap-run/kimbap/proxy"
	"github.com/kimbap-run/kimbap/proxy/egress"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/connector"
	"github.com/kimbap-run/kimbap/runtime/identity"
	"github.com/kimbap-run/kimbap/runtime/limit"
	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/runtime/vault/wrap"
	"github.com/kimbap-run/kimbap/services/command"
	"github.com/kimbap-run/kimbap/services/rest"
)

// The steps of [App.Open] that make the stages, from the store up.

func (a *App) openVault(ctx context.Context) (err error) {
	if err = a.findKey(a.config.Current()); err != nil {
		return err
	}
	a.vault, err = vault.New(vault.Options{
		Store: a.store, Clock: a.o.Clock, Fetch: wrap.Commands{Env: a.o.Env, Timeout: fetchTimeout},
		Renew: a.renewKey, Words: record.Words, Parts: connector.Parts, Exists: a.tenants().Has,
	})
	if err != nil {
		return err
	}
	a.onClose(a.lastUses)
	if a.o.LogTo != nil {
		a.o.LogTo.Hide(a.vault.Live)
	}
	if a.storeless != nil {
		a.locked.Store(a.lockedStoreless(ctx))
		return nil
	}
	a.settleSeal(ctx)
	if err = a.ordered(ctx); err == nil && a.unread == nil {
		if err = a.unlockVault(ctx); err != nil {
			err = a.moved(ctx, err)
		}
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
	a.identity, err = identity.New(identity.Options{Store: a.store, Clock: a.o.Clock, Current: a.abreast})
	return err
}

// unrecorded is the error of a trail that cannot be opened. Where its disk is mounted
// read-only it says so as all commands do, and nothing of requests: a lock is none.
func (a *App) unrecorded(err error) error {
	if !errors.Is(err, syscall.EROFS) {
		return err
	}
	e := *runtime.AsError(err)
	e.Msg = "nothing can be recorded in the audit trail of this home, so nothing is done"
	return a.home.Hindered(&e, a.o.UID)
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
		return a.unrecorded(err)
	}
	a.onClose(a.closeWitness) // after the trail, whose last record it names
	a.onClose(a.trail.Close)
	a.crowded = crowd.New(a.trail, a.o.Clock)
	a.onClose(func(context.Context) error { a.crowded.Tell(true); return nil })
	return nil
}

func (a *App) openConnector(context.Context) (err error) {
	var opens runtime.Vault = longLived{a}
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
		Dialer: a.dialer(), Hold: a.hold, TLS: certs.Upstream(nil), Roots: roots, Placeholders: a.placeholder, PlaceholderIn: a.placeholderIn, KeyOf: a.keyOf,
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
