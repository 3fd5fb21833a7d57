package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// A lock is a row of the store. Where the store does not take it, it is a file of the home,
// which every process over the home obeys like that row. The first of them that reaches the
// store again puts the row there, for all machines, and removes the file. An unlock wants
// the store, and removes it too.

// keptLock is the order in that file; there says whether there is one. One that cannot be
// read is an order without an end.
func (a *App) keptLock() (l vault.Lock, there bool) {
	if _, err := os.Lstat(a.home.KeptLock()); errors.Is(err, fs.ErrNotExist) {
		return l, false // which is known without a descriptor too, where none is left
	}
	text, err := os.ReadFile(a.home.KeptLock())
	if errors.Is(err, fs.ErrNotExist) {
		return l, false
	}
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err != nil || l.Since.IsZero() {
		l = vault.Lock{Since: time.Unix(1, 0).UTC(), By: "unknown"}
		if info, err := os.Stat(a.home.KeptLock()); err == nil {
			l.Since = info.ModTime().UTC()
		}
	}
	return l, true
}

// inForce reports whether an order has not ended by itself.
func (a *App) inForce(l vault.Lock) bool {
	return !l.Since.IsZero() && (l.Until.IsZero() || a.o.Clock().Before(l.Until))
}

// lockOrder is the lock that is in force for the processes over this home, false without
// one. It is known without the store where the file says it.
func (a *App) lockOrder(ctx context.Context) (vault.Lock, bool, error) {
	if l, there := a.keptLock(); there && a.inForce(l) {
		return l, true, nil
	}
	return a.vault.Ordered(ctx)
}

// lockHere locks what runs over this home, without the store, and why there is none. The
// error says what it does not reach. What is locked for longer stays so. The caller has the
// lock of the keys.
func (a *App) lockHere(ctx context.Context, length time.Duration, why *runtime.Error) (done Locking, err error) {
	l := vault.Lock{Since: a.o.Clock().UTC().Truncate(time.Microsecond), By: a.Operator().ID}
	event := record.Event{Kind: "vault.lock", Principal: l.By, Fields: map[string]string{"store": "not reached"}}
	if length > 0 {
		if s, err := a.sealed(); s != nil || err != nil {
			return Locking{}, errors.Join(err, a.sealedAway())
		}
		l.Until = l.Since.Add(length)
		event.Fields["for"] = length.String()
	}
	bare := false
	if was, there := a.keptLock(); !there || !a.inForce(was) || outlasts(l, was) {
		if bare, err = a.keepLock(l); err != nil {
			return Locking{}, fmt.Errorf("lock without the store: %w", err)
		}
	}
	a.locked.Store(runtime.AsError(a.ordered(ctx)))
	told := a.lockedElsewhere(why, length == 0)
	if bare && length > 0 {
		told.Msg += "; there was no room to write its end: kimbap unlock ends it"
	}
	if err := a.told(event); err != nil { // which does not undo it: nobody may use a key then either
		told.Msg += "; and the record of that is late: " + runtime.AsError(err).Msg
	}
	return Locking{Here: true}, told
}

// keepLock writes an order into the file. A disk without room for it, which an agent may have
// filled, hinders no lock: a file without content needs none, and is an order without an end; bare
// reports that such a one was written. The caller has the lock of the keys, a file without content
// too.
func (a *App) keepLock(l vault.Lock) (bare bool, err error) {
	text, err := json.Marshal(l)
	if err != nil {
		return false, err
	}
	if err = home.Replace(a.home.KeptLock(), text, 0o600); system.Full(err) {
		bare, err = true, os.WriteFile(a.home.KeptLock(), nil, 0o600)
	}
	if system.Full(err) { // no inode is left: an empty file that is there gets the name, and is made anew when there is
		err = os.Rename(a.home.KeyLock(), a.home.KeptLock())
	}
	return bare, errors.Join(err, system.SyncFolder(a.home.Dir))
}

// notTold is the error of an order that the store did not take.
type notTold struct{ error }

// Unwrap returns it.
func (e *notTold) Unwrap() error { return e.error }

// unanswered is why the store could be asked nothing, or be told nothing, for an order; nil
// where an error is of something else.
func unanswered(err error) *runtime.Error {
	no := (*notTold)(nil)
	if !errors.As(err, &no) {
		return nil
	}
	e := runtime.AsError(no.error)
	if e.Code == runtime.CodeStorageBusy || e.Reason == runtime.ReasonStorageUnavailable {
		return e
	}
	return nil
}

// outlasts reports whether one order ends later than another, or never.
func outlasts(l, other vault.Lock) bool {
	return !other.Until.IsZero() && (l.Until.IsZero() || l.Until.After(other.Until))
}

// tellLock gives the store the order that it could not be given, where it can be had now.
// Whoever locks or unlocks meanwhile sees to it.
func (a *App) tellLock(ctx context.Context) {
	if _, there := a.keptLock(); !there || a.storeless != nil {
		return
	}
	unlock, err := a.home.LockKeys(ctx, 0)
	if err != nil {
		return
	}
	defer unlock()
	l, there := a.keptLock()
	if !there {
		return
	}
	err = a.putLock(ctx, l)
	if err == nil {
		err = a.dropKeptLock()
	}
	if err != nil { // it is tried again, and does no harm twice
		a.o.Log.Debug().Err(err).Msg("a lock is not told to other machines yet, or that is not recorded")
	}
}

// putLock puts an order into the store, unless one is there that lasts as long, and records
// that.
func (a *App) putLock(ctx context.Context, l vault.Lock) error {
	was, locked, err := a.vault.Ordered(ctx)
	if err != nil || !a.inForce(l) {
		return err
	}
	if !locked || outlasts(l, was) {
		if err := a.store.SetLock(ctx, l); err != nil {
			return err
		}
	}
	return a.inLedger(ctx, record.Event{Kind: "vault.lock", Principal: "kimbap", Fields: map[string]string{"by": l.By, "store": "reached"}})
}

// dropKeptLock removes the file of an order.
func (a *App) dropKeptLock() error {
	err := os.Remove(a.home.KeptLock())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
