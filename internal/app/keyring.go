package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/vault/wrap"
)

// The keyring's entries of a home outlive the home, and a move of its key. They go with the
// move, and by [App.ForgetKeyring] where the home has its key elsewhere or is no more.

// keyring is the keyring of the system with the key of this home.
func (a *App) keyring() (wrap.Keyring, error) {
	dir, err := filepath.Abs(a.home.Dir)
	return wrap.Keyring{Home: dir, Env: a.o.Env}, err
}

// ForgetKeyring removes what the keyring of the system has of this home's master key, once
// sure says so, and reports whether it found something and whether it did. It refuses where
// that may be the only key. The home is open, or it is no more.
func (a *App) ForgetKeyring(ctx context.Context, sure func() (bool, error)) (found, removed bool, err error) {
	keyring, err := a.keyring()
	if err != nil {
		return false, false, err
	}
	there := a.store != nil
	if there {
		err = a.keyElsewhere(ctx)
	} else {
		err = a.homeGone()
	}
	if err == nil {
		found, err = keyring.Holds(ctx)
		err = inSession(err)
	}
	if err != nil || !found {
		return false, false, err
	}
	if yes, err := sure(); err != nil || !yes {
		return true, false, err
	}
	if there {
		err = a.forgetKeyring(ctx, keyring)
	} else if err = a.homeGone(); err == nil {
		err = inSession(keyring.Forget(ctx))
	}
	return true, err == nil, err
}

// forgetKeyring is for an open home. A person may have taken long to say yes, so it looks
// once more.
func (a *App) forgetKeyring(ctx context.Context, keyring wrap.Keyring) error {
	unlock, err := a.home.LockKeys(ctx, home.KeyLockWait)
	if err != nil {
		return err
	}
	defer unlock()
	err = a.keyElsewhere(ctx)
	if err == nil {
		err = a.inLedger(ctx, record.Event{Kind: "vault.forget_keyring", Principal: a.Operator().ID})
	}
	if err == nil {
		err = inSession(keyring.Forget(ctx))
	}
	return err
}

// inSession is a keyring's error for who wants an entry gone: to keep the key elsewhere,
// which helps who wants to open a home, would be no help.
func inSession(err error) error {
	var e *runtime.Error
	if !errors.As(err, &e) || e.Reason != runtime.ReasonKeyUnavailable {
		return err
	}
	told := *e
	told.Hint = "run this in the desktop session of the user whose keyring has the entry, with the keyring unlocked"
	return &told
}

// leaveKeyring removes the key that has just been replaced by one that is kept elsewhere.
func (a *App) leaveKeyring(ctx context.Context) error {
	keyring, err := a.keyring()
	if err != nil {
		return err
	}
	return keyring.Forget(ctx)
}

// keyElsewhere is an error unless a key that opens the vault was just read somewhere else
// than in the keyring.
func (a *App) keyElsewhere(ctx context.Context) error {
	if keyPlace(a.keySource()) == "keyring" {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: "the keyring has the master key of this home: without it nothing in its vault can be opened",
			Hint: "move it first: set master_key.source in config.yaml to file, command or transit, then: kimbap vault rotate --master-key --from keyring",
		}
	}
	if err := a.ordered(ctx); err != nil {
		return err
	}
	return a.openForOwner(ctx)
}

// homeGone is an error while there is a folder where the home was: it may be covered, or
// on a disk that is not mounted now.
func (a *App) homeGone() error {
	_, err := os.Lstat(a.home.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNoHome,
		Msg:  fmt.Sprintf("there is no kimbap home in %s, which may be covered or not mounted now: its key may still be needed", a.home.Dir),
		Hint: "if it is no more, remove the folder, then try again",
	}
}
