package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/runtime/vault/wrap"
)

// fetchTimeout is how long the command of a reference may take.
const fetchTimeout = 15 * time.Second

// keeper is where the master key is kept now. The watch changes it when config.yaml does, and
// whoever finds the key replaced.
type keeper struct {
	now atomic.Pointer[vault.KeyWrapper]
	of  atomic.Pointer[config.Config] // that says so
}

func (k *keeper) wrapper() vault.KeyWrapper     { return *k.now.Load() }
func (k *keeper) become(where vault.KeyWrapper) { k.now.Store(&where) }

// elsewhere reports whether a configuration has another place than the one it is. That of the
// process itself may: what it says could not be taken up when it came.
func (k *keeper) elsewhere(c *config.Config) bool {
	of := k.of.Load()
	return of == nil || !c.Same(of, "master_key.")
}

// findKey looks for the master key where a configuration says.
func (a *App) findKey(c *config.Config) error {
	w, err := a.keyWrapper(c.MasterKey, cmp.Or(a.o.KeyFrom, c.MasterKey.Source))
	if err == nil {
		a.keeps.become(w)
		a.keeps.of.Store(c)
	}
	return err
}

// followKey does so for a vault whose key was replaced: with a move config.yaml is edited
// first, perhaps since the watch has looked.
func (a *App) followKey() {
	if a.vault.Locked() || a.unread != nil {
		return // the start knows it, and then the watch
	}
	next, err := a.config.Peek()
	if err == nil && a.keeps.elsewhere(next) {
		err = a.findKey(next)
	}
	if err != nil {
		a.o.Log.Warn().Err(err).Msg("the master key was replaced, and is looked for where it was")
	}
}

// keyWrapper is where the master key is kept, by the name of a source.
func (a *App) keyWrapper(k config.MasterKey, source string) (vault.KeyWrapper, error) {
	service := func(c wrap.Cipher) vault.KeyWrapper { return wrap.Service{Path: a.home.WrappedKey(), Cipher: c} }
	switch source {
	case "auto", "file":
		return wrap.File{Path: a.home.MasterKey()}, nil
	case "env":
		return wrap.Env{Key: k.Value, Following: k.Next}, nil
	case "keyring":
		return a.keyring()
	case "command":
		if len(k.Command) == 0 {
			break
		}
		return service(wrap.Command{Argv: k.Command, Env: a.o.Env, Pass: k.CommandEnv, Timeout: k.Timeout.Duration()}), nil
	case "transit":
		t, err := wrap.NewTransit(wrap.TransitOptions{
			Address: k.Transit.Address, Mount: k.Transit.Mount, Key: k.Transit.Key, Namespace: k.Transit.Namespace,
			Token: k.Transit.Token, CAFile: k.Transit.CAFile, Timeout: k.Timeout.Duration(),
		})
		return service(t), err
	}
	return nil, &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("%q is no place that a master key can be kept in, or config.yaml does not say how", source),
		Hint: "file, keyring, command or transit; see master_key in docs/vault.md",
	}
}

// keySource is the place that holds the key now.
func (a *App) keySource() string {
	if a.o.KeyFrom != "" {
		return a.o.KeyFrom
	}
	return a.config.Current().MasterKey.Source
}

// keyPlace is what a source keeps the key in: two that share it leave no old key
// behind, since the new one takes its place.
func keyPlace(source string) string {
	switch source {
	case "auto":
		return "file"
	case "transit":
		return "command" // master.wrapped, both
	}
	return source
}

// unlockVault opens the vault with the one of the kept keys that proves to be in
// force. A vault that has never been opened gets a new key: that of a new home,
// and of one whose making was cut short or is under way in another process.
func (a *App) unlockVault(ctx context.Context) error {
	keys, missed, err := a.openWith(ctx, a.fetchKeys)
	if err == nil && a.unsettled(keys, missed) {
		a.settleKeys(ctx, keys)
	}
	return err
}

// rotationsMet bounds how often keys are read anew. Each time another process has rotated them.
const rotationsMet = 16

// openWith opens the vault with the keys that fetch brings, and returns them. One that is wrong
// was perhaps right when it was read: where another process has rotated it since, its place holds
// another by now.
func (a *App) openWith(ctx context.Context, fetch func(context.Context) ([]vault.MasterKey, error)) (keys []vault.MasterKey, missed, err error) {
	for range rotationsMet {
		before := keys
		keys, missed = fetch(ctx)
		err = a.tryKeys(ctx, keys, missed)
		if err == nil || runtime.AsError(err).Reason != runtime.ReasonWrongMasterKey || slices.EqualFunc(keys, before, vault.MasterKey.Same) {
			break
		}
	}
	return keys, missed, err
}

// unsettled reports whether something of a rotation that was cut short may be left beside the key
// in force.
func (a *App) unsettled(keys []vault.MasterKey, missed error) bool {
	if len(keys) > 1 || missed != nil {
		return true
	}
	place, err := a.placeNamed(keyPlace(a.keySource()))
	return err == nil && place != nil && place.Littered()
}

// tryKeys opens the vault with one of the keys that could be had. Where none is the right one,
// it may be the one that could not: missed is why.
func (a *App) tryKeys(ctx context.Context, keys []vault.MasterKey, missed error) error {
	if len(keys) == 0 && missed != nil {
		return missed
	}
	err := a.vault.Unlock(ctx, keys...)
	if err != nil && missed != nil && runtime.AsError(err).Reason == runtime.ReasonWrongMasterKey {
		return missed
	}
	return err
}

// fetchKeys are the keys that are kept, or the first one, as [vault.KeyWrapper] returns them.
func (a *App) fetchKeys(ctx context.Context) ([]vault.MasterKey, error) {
	a.followKey()
	keys, err := a.keeps.wrapper().Keys(ctx)
	if e := runtime.AsError(err); err != nil && e.Reason == runtime.ReasonNoMasterKey {
		return a.firstKey(ctx, e)
	}
	return keys, err
}

// firstKey makes the key of a vault that was never opened; for a used one it
// returns why that has none.
func (a *App) firstKey(ctx context.Context, why *runtime.Error) ([]vault.MasterKey, error) {
	used, err := a.store.CheckValue(ctx)
	if err != nil {
		return nil, err
	}
	if used != nil {
		return nil, a.keyGone(why)
	}
	unlock, err := a.home.LockKeys(ctx, home.KeyLockWait)
	if err != nil {
		return nil, err
	}
	defer unlock()
	keys, err := a.keeps.wrapper().Keys(ctx) // another process may have been faster
	if err == nil || runtime.AsError(err).Reason != runtime.ReasonNoMasterKey {
		return keys, err
	}
	key, err := a.keeps.wrapper().Next(ctx)
	if err != nil {
		return nil, err
	}
	return []vault.MasterKey{key}, a.keeps.wrapper().Settle(ctx, key)
}

// keyGone says where the key of a used vault should be.
func (a *App) keyGone(why *runtime.Error) error {
	if err := a.sealedAway(); err != nil {
		return err
	}
	e := &runtime.Error{
		Code: runtime.CodeVaultLocked, Reason: runtime.ReasonNoMasterKey, Err: why.Err,
		Msg:  why.Msg + ", so nothing in this vault can be opened",
		Hint: "put it back there; if it is elsewhere, say so in master_key of config.yaml, or move it: kimbap vault rotate --master-key --from file",
	}
	if _, file := a.keeps.wrapper().(wrap.File); file {
		e.Msg = fmt.Sprintf("the master key %s is missing, so nothing in this vault can be opened", a.home.MasterKey())
		e.Hint = "put the file back (a running proxy takes it up by itself), or move the home away and start with: kimbap init; " +
			"a key that was in KIMBAP_MASTER_KEY goes into the file (mode 0600), or back there with master_key.source: env"
		if a.Shares() { // elsewhere the key is needed still
			e.Hint = "put it back, or copy the one of another home that shares the store to " + a.home.MasterKey()
		}
	}
	if a.shared != nil && a.fresh {
		e.Msg = "this home has no master key, and the database " + a.shared.Name() + " is sealed with that of the homes that share it"
		e.Hint = "keep the key where all of them reach it (master_key in docs/vault.md), or copy master.key of another home to " + a.home.MasterKey()
	}
	return e
}

// settleKeys ends a rotation that was cut short: the key in force is kept alone.
// Where a rotation is under way it leaves everything to that.
func (a *App) settleKeys(ctx context.Context, keys []vault.MasterKey) {
	unlock, err := a.home.LockKeys(ctx, 0)
	if err != nil {
		return
	}
	defer unlock()
	if err := a.settleOn(ctx, keys); err != nil {
		a.o.Log.Warn().Err(err).Msg("a rotation of the master key was cut short and cannot be ended; the key in force is used")
	}
}

// settleOn keeps the one of these keys that the vault uses. The caller has the
// lock of the keys; without it the one of a rotation under way could go.
func (a *App) settleOn(ctx context.Context, keys []vault.MasterKey) error {
	if stale, err := a.vault.Stale(ctx); err != nil || stale {
		return err
	}
	for _, key := range keys {
		if a.vault.Uses(key) {
			return a.keeps.wrapper().Settle(ctx, key)
		}
	}
	return nil
}
