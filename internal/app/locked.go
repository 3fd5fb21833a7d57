package app

import (
	"context"
	"net"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// startsLocked notes why a used vault has no master key, and reports whether
// this App may open without. Every other fault of a key refuses the start.
func (a *App) startsLocked(err error) bool {
	why := runtime.AsError(err)
	if !a.o.StartLocked || why.Code != runtime.CodeVaultLocked || why.Reason != runtime.ReasonNoMasterKey {
		return false
	}
	a.locked.Store(why)
	return true
}

// Locked says to the operator why no stored key can be used, nil when they can.
func (a *App) Locked() *runtime.Error { return a.locked.Load() }

// refusal is Locked in words for callers: an agent has no business with files
// of the home.
func (a *App) refusal() *runtime.Error {
	why := a.Locked()
	if why == nil {
		return nil
	}
	return &runtime.Error{
		Code: why.Code, Reason: why.Reason, Stage: runtime.StageSurface,
		Msg:  "the vault is locked: its master key cannot be used, so kimbap serves no host of a service",
		Hint: "the owner of this kimbap can repair it, kimbap status says how; hosts without a service are served meanwhile", Err: why,
	}
}

// unlock takes the master key up again once its file is back, and then serves
// the hosts of services without a restart. A key that is not the right one is
// said once, and looked at again.
func (a *App) unlock(ctx context.Context) {
	err := a.takeKey(ctx)
	if err == nil {
		err = a.trail.Event(ctx, audit.Event{Kind: "vault.unlock", Principal: "kimbap"})
	}
	was := a.Locked()
	if err == nil {
		a.locked.Store(nil)
		a.o.Log.Warn().Msg("the master key is back: the vault is open again")
		a.writeState()
		return
	}
	if why := runtime.AsError(err); why.Msg != was.Msg && !(missing(why) && missing(was)) {
		a.locked.Store(why)
		a.o.Log.Error().Err(err).Msg("the vault stays locked")
		a.writeState()
	}
}

// takeKey opens what the master key protects: the vault, then the authority
// where this App serves with it.
func (a *App) takeKey(ctx context.Context) error {
	if a.vault.Locked() {
		key, err := vault.LoadMasterKey(a.home.MasterKey())
		if err != nil {
			return err
		}
		if err := a.vault.Unlock(ctx, key); err != nil {
			return err
		}
	}
	if !a.homeCA {
		return nil
	}
	if _, err := a.CA(ctx); err != nil {
		return &runtime.Error{Code: runtime.CodeVaultLocked, Msg: err.Error(), Hint: "kimbap doctor", Err: err}
	}
	signing{a: a}.permit(a.Services().Services()...)
	return nil
}

// missing reports whether it is the key's file that is not there.
func missing(e *runtime.Error) bool { return e.Reason == runtime.ReasonNoMasterKey }

// startEvent is the record of a proxy's start.
func (a *App) startEvent(addr net.Addr) audit.Event {
	fields := map[string]string{"listen": addr.String()}
	if a.Locked() != nil {
		fields["vault"] = "locked"
	}
	return audit.Event{Kind: "proxy.start", Principal: a.Operator().ID, Fields: fields}
}
