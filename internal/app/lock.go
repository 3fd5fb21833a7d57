package app

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/identity"
)

// Locking is what LockVault did.
type Locking struct {
	Sealed bool // the master key is under the PIN, and not where it was
	Runs   int  // whose tokens were revoked
	Here   bool // it is told to what runs over this home alone: the store cannot be used
}

// LockVault closes the vault for every process over the home, also for those to
// come; running proxies follow within a second. With a length it is a pause: the key
// stays where it is, and the vault opens again by itself. Without one the master key
// is sealed under the owner's PIN, the tokens of runs are revoked, and it is closed
// until [App.UnlockVault].
//
// Where the key cannot be sealed the vault is closed all the same, and the error says
// that the key still is where it was. Without the store it is closed for the processes over
// this home, and the error says what else there is to do. Where not all have the record of it,
// the vault is locked and the error says so: who can make a sink fail hinders no lock.
func (a *App) LockVault(ctx context.Context, length time.Duration) (done Locking, err error) {
	unlock, err := a.home.LockKeys(ctx, home.KeyLockWait)
	if err != nil {
		return Locking{}, err
	}
	defer unlock()
	if a.storeless != nil {
		return a.lockHere(ctx, length, a.storeless)
	}
	done, err = a.lockVault(ctx, length)
	if why := unanswered(err); why != nil { // it did when the home was opened
		return a.lockHere(ctx, length, why)
	}
	return done, err
}

// lockVault locks by the store, which may not take that.
func (a *App) lockVault(ctx context.Context, length time.Duration) (done Locking, err error) {
	if length > 0 {
		err = a.mayPause(ctx, length)
	} else {
		err = a.maySeal(ctx)
	}
	if err != nil {
		return Locking{}, &notTold{err}
	}
	event := record.Event{Kind: "vault.lock", Principal: a.Operator().ID}
	if length > 0 {
		event.Fields = map[string]string{"for": length.String()}
	}
	late := a.told(event)
	if length > 0 {
		err = a.order(ctx, length)
	} else {
		done, err = a.lockAndSeal(ctx)
	}
	if late == nil {
		late = a.trail.Flush(ctx) // which may wait for a sink: the vault is locked
	}
	if err == nil && late != nil {
		err = lockedUnrecorded(late)
	}
	return done, err
}

// lockedUnrecorded is the error of a lock that is in force.
func lockedUnrecorded(late error) *runtime.Error {
	e := runtime.AsError(late)
	return &runtime.Error{
		Code: e.Code, Reason: e.Reason, Stage: e.Stage, Hint: e.Hint, Err: e.Err,
		Msg: "the vault is locked, and the record of that is late: the audit trail, or a place that has to have it, does not take it now",
	}
}

// mayPause refuses a pause of what is locked for longer: it would open the vault
// earlier, without the PIN that an unlock asks for.
func (a *App) mayPause(ctx context.Context, length time.Duration) error {
	l, locked, err := a.vault.Ordered(ctx)
	s, serr := a.sealed()
	if err := errors.Join(err, serr); err != nil {
		return err
	}
	if kept, there := a.keptLock(); there && a.inForce(kept) && (!locked || outlasts(kept, l)) {
		l, locked = kept, true
	}
	e := &runtime.Error{Code: runtime.CodeInvalidInput, Hint: "kimbap unlock; then kimbap lock --for D"}
	switch {
	case s != nil || locked && l.Until.IsZero():
		e.Msg = "the vault is locked already, and does not open by itself"
		return e
	case locked && a.o.Clock().Add(length).Before(l.Until):
		e.Msg = "the vault is locked already, until " + l.Until.UTC().Format(time.RFC3339)
		return e
	}
	return nil
}

// maySeal refuses a lock that would not hold: one without a PIN.
func (a *App) maySeal(ctx context.Context) error {
	who, err := a.approvals.OwnPin(ctx, a.Operator())
	if err == nil && who == "" {
		err = &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: "there is no PIN to seal the master key under",
			Hint: "set one in a terminal: kimbap approve pin; or close the vault for a time, with the key where it is: kimbap lock --for 8h",
		}
	}
	return err
}

// lockAndSeal does what a lock without an end does, in the order that a kill -9 on
// the way wants: see the head of sealed.go.
func (a *App) lockAndSeal(ctx context.Context) (done Locking, err error) {
	place, unsealed := a.sealKey(ctx)
	done.Runs, err = a.revokeRuns(ctx)
	if oerr := a.order(ctx, 0); oerr != nil {
		return done, oerr
	}
	if err == nil {
		var late int // runs that began after the list was made, with what was open then
		late, err = a.revokeRuns(ctx)
		done.Runs += late
	}
	if unsealed == nil && place != nil {
		unsealed = place.Drop(ctx) // also where a run goes on: the order stands
	}
	if unsealed != nil {
		e := runtime.AsError(unsealed)
		return done, &runtime.Error{
			Code: runtime.CodeVaultLocked, Reason: e.Reason, Stage: runtime.StageCredential, Err: errors.Join(unsealed, err),
			Msg:  "the vault is closed, but its master key is not sealed: " + e.Msg,
			Hint: strings.TrimPrefix(e.Hint+"; then kimbap lock again", "; then "),
		}
	}
	s, serr := a.sealed()
	done.Sealed = s != nil
	return done, cmp.Or(err, serr)
}

// order closes the vault by a row that every process follows, and in this one.
func (a *App) order(ctx context.Context, length time.Duration) error {
	if err := a.vault.SetLock(ctx, a.Operator().ID, length); err != nil {
		return &notTold{err}
	}
	if err := a.ordered(ctx); err != nil {
		a.locked.Store(runtime.AsError(err))
	}
	return nil
}

// revokeRuns ends every token of a run, of all tenants, also of those that only another home
// has that shares the store, recorded one by one, and returns how many of them were valid. One
// that has expired is ended too: its run may have slept, and would make it good again.
func (a *App) revokeRuns(ctx context.Context) (n int, err error) {
	tokens, err := a.identity.Runs(ctx)
	if err != nil {
		return 0, err
	}
	for _, t := range tokens {
		if err := a.revokeRun(ctx, t); err != nil {
			return n, err
		}
		if a.o.Clock().Before(t.Expires) {
			n++
		}
	}
	return n, nil
}

// revokeRun ends the token of one run.
func (a *App) revokeRun(ctx context.Context, t identity.Token) error {
	event := record.Event{
		Kind: "token.revoke", Principal: a.Operator().ID, Tenant: t.Tenant,
		Fields: map[string]string{"token": t.ID, "run": t.Run, "because": "vault.lock"},
	}
	tell := func(_ context.Context, event record.Event) error {
		if err := a.told(event); err != nil {
			a.o.Log.Debug().Err(err).Msg("the record of the end of a run is late")
		}
		return nil
	}
	return between(ctx, tell, event, func() error {
		_, err := a.identity.Revoke(ctx, t.Tenant, t.ID)
		return err
	})
}

// IsLocked reports whether anything keeps the vault locked that [App.UnlockVault] could
// open: a sealed key, the owner's order, or a key that could not be had at the start.
func (a *App) IsLocked(ctx context.Context) (bool, error) {
	s, err := a.sealed()
	if err != nil || s != nil {
		return s != nil, err
	}
	_, ordered, err := a.lockOrder(ctx)
	return ordered || a.Locked() != nil, err
}

// UnlockVault opens what [App.LockVault] closed, with the PIN that
// [App.UnlockNeeds] names. The error says what else keeps the vault locked.
func (a *App) UnlockVault(ctx context.Context, pin runtime.Secret) error {
	unlock, err := a.home.LockKeys(ctx, home.KeyLockWait)
	if err != nil {
		return err
	}
	defer unlock()
	return a.noted(ctx, "vault.unlock", map[string]string{}, func() error {
		if err := a.mayUnlock(ctx, pin); err != nil {
			if a.Locked() != nil {
				a.vault.Lock()
			}
			return err
		}
		if err := a.vault.LiftLock(ctx); err != nil {
			return err
		}
		if err := errors.Join(a.sealFile().Remove(ctx), a.dropKeptLock()); err != nil {
			return err
		}
		if a.vault.Locked() {
			if err := a.unlockVault(ctx); err != nil {
				return err
			}
		}
		a.locked.Store(nil)
		return nil
	})
}

// mayUnlock checks the PIN, and puts a key back that is sealed under it.
func (a *App) mayUnlock(ctx context.Context, pin runtime.Secret) error {
	s, err := a.sealed()
	if err != nil {
		return err
	}
	if s != nil {
		return a.unseal(ctx, s, pin)
	}
	needs, err := a.UnlockNeeds(ctx)
	if err != nil || needs == "" {
		return err
	}
	return a.approvals.Prove(ctx, a.Operator(), pin)
}
