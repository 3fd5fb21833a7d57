package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/vault/wrap"
)

// While the vault is locked, what its place held of the master key stands in
// master.sealed, under the PIN, and nowhere else. In this order it is sealed: the
// file is durable and opens, the order stands in the database, the place is emptied.
// In this order it is opened: the place holds it again, the order is lifted, the file
// goes. Where both hold it, somebody was killed on the way, and the order says which
// of the two goes: App.settleSeal.

// sealFile is the file of a sealed master key.
func (a *App) sealFile() wrap.Seal { return wrap.Seal{Path: a.home.SealedKey()} }

// placeNamed is where kimbap keeps the key of a source, by the name that keyPlace
// gives it; nil where it is not kimbap that keeps it.
func (a *App) placeNamed(name string) (wrap.Place, error) {
	switch name {
	case "file":
		return wrap.KeyFile{Path: a.home.MasterKey()}, nil
	case "command":
		return wrap.KeyFile{Path: a.home.WrappedKey()}, nil
	case "keyring":
		return a.keyring()
	case "env":
		return nil, nil
	}
	return nil, fmt.Errorf("%q is no place of a master key", name)
}

// placeOf is where what is sealed was, and goes back to. A keyring may be gone for good,
// as on another machine: where the configuration names the file instead, that is the
// place, which holds a key in the same form. What is sealed is not proved yet, and may
// say anything.
func (a *App) placeOf(s *wrap.Sealed) (wrap.Place, error) {
	name := s.Place
	if name == "keyring" && a.unread == nil && keyPlace(a.keySource()) == "file" {
		name = "file"
	}
	place, err := a.placeNamed(name)
	if place == nil && err == nil {
		err = fmt.Errorf("no master key is sealed from %q", name)
	}
	return place, err
}

// sealed returns what is sealed, nil when nothing is.
func (a *App) sealed() (*wrap.Sealed, error) {
	s, err := a.sealFile().Read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &s, nil
}

// sealKey seals what the place of the key holds. The place is returned, to be
// emptied once the order stands; nil when nothing is there that could be. The caller
// has the lock of the keys.
func (a *App) sealKey(ctx context.Context) (wrap.Place, error) {
	if a.unread != nil { // where the key is, only the configuration knows
		return nil, runtime.AsError(a.Locked())
	}
	name := keyPlace(a.keySource())
	place, err := a.placeNamed(name)
	if err != nil {
		return nil, err
	}
	keys, missed := a.keeps.wrapper().Keys(ctx)
	if missed != nil && runtime.AsError(missed).Reason == runtime.ReasonNoMasterKey {
		if s, _ := a.sealed(); s != nil {
			return nil, nil // it is sealed already
		}
	}
	if err := a.tryKeys(ctx, keys, missed); err != nil {
		return nil, err
	}
	if place == nil {
		return nil, nil
	}
	if err := a.settleOn(ctx, keys); err != nil { // of a rotation that was cut short
		return nil, err
	}
	if _, locked, err := a.vault.Ordered(ctx); err != nil || !locked { // what an unlock left may be under an older PIN
		if err := errors.Join(err, a.sealFile().Remove(ctx)); err != nil {
			return nil, err
		}
	}
	if file, ok := place.(wrap.KeyFile); ok {
		if err := file.RefuseLink(); err != nil {
			return nil, err
		}
	}
	kept, err := place.Take(ctx)
	if err != nil {
		return nil, err
	}
	defer clear(kept)
	lid, err := a.approvals.Lid(ctx, a.Operator())
	if err != nil {
		return nil, err
	}
	return place, a.sealFile().Write(wrap.Sealed{Who: lid.Who, Place: name, Recipe: lid.Recipe}, lid.Key, kept)
}

// unseal puts back what the PIN opens to where it was. The caller has the lock of
// the keys.
func (a *App) unseal(ctx context.Context, s *wrap.Sealed, pin runtime.Secret) error {
	place, err := a.placeOf(s)
	if err != nil {
		return err
	}
	var kept []byte
	defer func() { clear(kept) }()
	err = a.approvals.Lift(ctx, a.Operator(), approval.Lid{Who: s.Who, Recipe: s.Recipe}, pin, func(key runtime.Secret) bool {
		kept, err = s.Open(key)
		return err == nil
	})
	if err != nil {
		return err
	}
	return place.Put(ctx, kept)
}

// settleSeal ends a lock or an unlock that was cut short: the order says which it
// was. A key that is not the sealed one is left alone. It runs before the vault is
// opened, and needs nothing of it.
func (a *App) settleSeal(ctx context.Context) {
	if _, place := a.halfDone(ctx); place == nil {
		return
	}
	unlock, err := a.home.LockKeys(ctx, 0)
	if err != nil {
		return // a lock or unlock is under way
	}
	defer unlock()
	twice, place := a.halfDone(ctx)
	if place == nil {
		return
	}
	l, locked, err := a.vault.Ordered(ctx)
	if err != nil {
		return
	}
	switch {
	case !twice:
		err = place.Sweep()
	case locked && l.Until.IsZero():
		err = place.Drop(ctx)
	default:
		err = a.sealFile().Remove(ctx)
	}
	if err != nil {
		a.o.Log.Warn().Err(err).Msg("a lock or unlock was cut short and cannot be ended")
	}
}

// halfDone returns the place of the key that is sealed where it holds that key too,
// twice, or litter of who was killed there; nil when there is nothing to do.
func (a *App) halfDone(ctx context.Context) (twice bool, place wrap.Place) {
	s, err := a.sealed()
	if s == nil || err != nil {
		return false, nil
	}
	place, err = a.placeOf(s)
	if err != nil {
		return false, nil
	}
	kept, err := place.Take(ctx)
	defer clear(kept)
	if twice = err == nil && s.Holds(kept); twice || place.Littered() {
		return twice, place
	}
	return false, nil
}

// SealedIn is the file that the master key is sealed in, "" while none is. It works on
// a home that is not open.
func (a *App) SealedIn() string {
	if s, err := a.sealed(); s == nil && err == nil {
		return ""
	}
	return a.home.SealedKey()
}

// howSealed says in words where the key is while its owner has locked the vault.
func (a *App) howSealed() string {
	s, err := a.sealed()
	switch {
	case s != nil || err != nil:
		return "its master key is sealed under the PIN"
	case a.unread == nil && keyPlace(a.keySource()) == "env":
		return "its master key comes from the environment, where kimbap cannot seal it"
	}
	return "its master key is not sealed: kimbap lock"
}

// sealedAway is the error of a vault whose key is sealed, nil when it is not.
func (a *App) sealedAway() error {
	s, err := a.sealed()
	if s == nil {
		return err
	}
	return &runtime.Error{
		Code: runtime.CodeVaultLocked, Reason: runtime.ReasonLocked, Stage: runtime.StageCredential,
		Msg: "the vault is locked by its owner: its master key is sealed under the PIN of " + s.Who, Hint: "kimbap unlock",
	}
}

// UnlockNeeds returns whose PIN opens a vault that its owner locked, "" when none
// is set, or when it is open. What keeps it locked besides is said before anybody
// is asked for a PIN.
func (a *App) UnlockNeeds(ctx context.Context) (who string, err error) {
	s, err := a.sealed()
	if err != nil {
		return "", err
	}
	if s != nil {
		return s.Who, nil
	}
	if _, locked, err := a.lockOrder(ctx); err != nil || !locked {
		return "", err
	}
	if who, err = a.approvals.OwnPin(ctx, a.Operator()); err != nil || who == "" {
		return "", err
	}
	return who, a.openForOwner(ctx)
}

// openForOwner opens the vault in this process, whatever the order says.
func (a *App) openForOwner(ctx context.Context) error {
	_, missed, err := a.openWith(ctx, a.keeps.wrapper().Keys)
	if missed != nil {
		if e := runtime.AsError(missed); e.Reason == runtime.ReasonNoMasterKey {
			return a.keyGone(e)
		}
	}
	return err
}
