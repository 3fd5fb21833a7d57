package app

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/vault/wrap"
)

// keyPause is the time between two questions to what keeps the master key, other
// than a file, while the vault is locked.
const keyPause = 5 * time.Second

// linger is how long after a lock the log still hides the values that were open:
// requests that carried them may end, and be logged, until then.
const linger = time.Minute

// startsLocked notes why a used vault cannot be opened, and reports whether this
// App may start all the same. A key that is wrong or broken refuses the start of all but
// what takes rights away, with Options.AnyKey.
func (a *App) startsLocked(err error) bool {
	why := runtime.AsError(err)
	if !a.o.StartLocked || why.Code != runtime.CodeVaultLocked {
		return false
	}
	switch why.Reason {
	case runtime.ReasonNoMasterKey, runtime.ReasonKeyUnavailable, runtime.ReasonLocked:
		a.locked.Store(why)
		return true
	}
	if a.o.AnyKey {
		a.keyless = why
		a.locked.Store(why)
	}
	return a.o.AnyKey
}

// KeyFault says what is wrong with the master key, nil when nothing is or the home was not
// opened with Options.AnyKey.
func (a *App) KeyFault() *runtime.Error { return a.keyless }

// ordered is the error of a vault that its owner locked, nil when nobody did.
// What the vault has open is closed with it.
func (a *App) ordered(ctx context.Context) error {
	l, locked, err := a.lockOrder(ctx)
	if err == nil {
		a.pause.Store(&l)
	}
	if err != nil || !locked {
		return err
	}
	a.vault.Lock()
	until, how := "", ""
	if l.Until.IsZero() {
		how = "; " + a.howSealed()
	} else {
		until = " until " + l.Until.UTC().Format(time.RFC3339)
	}
	return &runtime.Error{
		Code: runtime.CodeVaultLocked, Reason: runtime.ReasonLocked, Stage: runtime.StageCredential,
		Msg:  fmt.Sprintf("the vault is locked by its owner%s (%s, %s)%s", until, l.By, l.Since.UTC().Format(time.RFC3339), how),
		Hint: "kimbap unlock",
	}
}

// pausesAgain reports whether a pause that was over when it was read is in force after all: the
// clock was ahead then, and what starts now is locked by it.
func (a *App) pausesAgain() bool {
	l := a.pause.Load()
	return l != nil && a.Locked() == nil && a.inForce(*l)
}

// shortLived is the vault of a command, which no watch keeps in step: a call may have
// waited hours for a person when it wants its credential.
type shortLived struct{ a *App }

var _ runtime.Vault = shortLived{}

// Credential implements [runtime.Vault].
func (s shortLived) Credential(ctx context.Context, tenant runtime.Tenant, auth *runtime.Auth) (runtime.Credential, error) {
	if err := s.a.ordered(ctx); err != nil {
		return runtime.Credential{}, err
	}
	return s.a.vault.Credential(ctx, tenant, auth)
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
	e := &runtime.Error{
		Code: why.Code, Reason: why.Reason, Stage: runtime.StageSurface,
		Msg:  "the vault is locked: its master key cannot be used, so kimbap serves no host of a service",
		Hint: "the owner of this kimbap can repair it, kimbap status says how; hosts without a service are served meanwhile", Err: why,
	}
	if why.Reason == runtime.ReasonLocked {
		e.Msg = "the vault is locked by its owner, so kimbap serves no host of a service"
		e.Hint = "the owner opens it with kimbap unlock; hosts without a service are served meanwhile"
	}
	return e
}

// followVault takes up what another process did to the vault: locked it, or gave
// it another master key. Call it before what was opened is forgotten. The error says
// that this is not known: it must be called again.
func (a *App) followVault(ctx context.Context) error {
	if a.Locked() != nil {
		return nil // unlock looks
	}
	err := a.ordered(ctx)
	if err == nil {
		var stale bool
		if stale, err = a.vault.Stale(ctx); stale {
			err = a.unlockBeside(ctx)
		}
	}
	if err != nil && runtime.CodeOf(err) == runtime.CodeVaultLocked {
		a.closeVault(runtime.AsError(err))
		return nil
	}
	return err
}

// renewKey takes up a new master key before the watch does, for a request that
// needs it now. A vault that was locked meanwhile stays so.
func (a *App) renewKey(ctx context.Context) error {
	if err := a.ordered(ctx); err != nil {
		return err
	}
	if err := a.unlockVault(ctx); err != nil {
		return err
	}
	return a.ordered(ctx) // the key may have been long in coming
}

// closeVault closes the vault and what was opened with it.
func (a *App) closeVault(why *runtime.Error) {
	a.locked.Store(why) // first: callers get the right words
	if why.Reason == runtime.ReasonLocked {
		a.vault.Lock()
	} else {
		a.vault.Shut()
	}
	if a.connector != nil { // not yet at the start
		a.connector.Forget()
	}
	a.lingers = a.o.Clock().Add(linger)
	a.authority.Lock()
	a.authority.ca = nil
	a.authority.Unlock()
	a.o.Log.Warn().Err(why).Msg("the vault is locked: hosts of services are refused")
	// It has happened, and what flows ends after this: nobody waits for the trail, or for a sink.
	a.trail.Note(record.Event{Kind: "vault.locked", Principal: "kimbap", Fields: map[string]string{"reason": string(why.Reason)}})
	a.writeState()
}

// dropLive takes from a locked vault what the log does not need any more.
func (a *App) dropLive() {
	if !a.lingers.IsZero() && !a.o.Clock().Before(a.lingers) {
		a.lingers = time.Time{}
		a.vault.DropLive()
		debug.FreeOSMemory() // pages with old values on them go back, as far as they are free
	}
}

// unlock opens the vault again once it may and can be, and then serves the hosts
// of services without a restart. A key that is not the right one is said once,
// and looked at again.
func (a *App) unlock(ctx context.Context) {
	err := a.takeKey(ctx)
	if errors.Is(err, errKeyAsked) {
		return
	}
	if err == nil {
		err = a.trail.Announce(record.Event{Kind: "vault.unlock", Principal: "kimbap"}) // no request passes before the sinks have all
	}
	was := a.Locked()
	if err == nil {
		a.locked.Store(nil)
		if a.connector != nil { // as where it closes
			a.connector.Nudge()
		}
		a.o.Log.Warn().Msg("the vault is open again")
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
	if err := a.ordered(ctx); err != nil {
		return err
	}
	if a.vault.Locked() {
		if _, file := a.keeps.wrapper().(wrap.File); !file && a.Locked() != nil && a.Locked().Reason != runtime.ReasonLocked {
			if a.o.Clock().Before(a.keyAgain) {
				return a.Locked()
			}
		}
		if err := a.unlockBeside(ctx); err != nil {
			if !errors.Is(err, errKeyAsked) {
				a.keyAgain = a.o.Clock().Add(keyPause) // from now on: the service may have taken longer
			}
			return err
		}
	}
	if !a.homeCA {
		return nil
	}
	if _, err := a.CA(ctx); err != nil {
		return &runtime.Error{Code: runtime.CodeVaultLocked, Msg: err.Error(), Hint: "kimbap doctor", Err: err}
	}
	signing{a: a}.permit(a.Services().Authorities()...)
	return nil
}

// missing reports whether it is the key that is not there.
func missing(e *runtime.Error) bool { return e.Reason == runtime.ReasonNoMasterKey }
