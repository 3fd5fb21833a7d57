package app

import (
	"context"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// RotatedMaster is what RotateMasterKey did.
type RotatedMaster struct {
	Keys    int       `json:"keys"` // wrapped anew
	Source  string    `json:"source"`
	From    string    `json:"from,omitempty"` // where the old key still is, of no use any more
	Removed string    `json:"removed_from,omitempty"`
	Already bool      `json:"already,omitempty"` // it had been moved before, and nothing was done
	Proxies []Running `json:"proxies"`           // which take the new key up within a second, where they can have it
}

// RotateMasterKey puts a new master key in the place of the old one, and in the
// place that master_key.source names, which moves it when that is another
// ([Options.KeyFrom]).
func (a *App) RotateMasterKey(ctx context.Context) (RotatedMaster, error) {
	done := RotatedMaster{Source: a.config.Current().MasterKey.Source, Proxies: append([]Running{}, a.Proxies()...)}
	if a.move != nil {
		return a.unmoved(done), nil
	}
	unlock, err := a.home.LockKeys(ctx, home.KeyLockWait)
	if err != nil {
		return done, err
	}
	defer unlock()
	if err := a.settledAlone(ctx); err != nil {
		return done, err
	}
	if a.move != nil {
		return a.unmoved(done), nil
	}
	to, err := a.keyWrapper(a.config.Current().MasterKey, done.Source)
	if err != nil {
		return done, err
	}
	event := record.Event{Kind: "vault.rotate_master_key", Principal: a.Operator().ID, Fields: map[string]string{"source": done.Source}}
	if from := a.keySource(); from != done.Source {
		event.Fields["from"] = from
		if keyPlace(from) != keyPlace(done.Source) {
			done.From = from
		}
	}
	err = a.within(ctx, event, func() (err error) {
		done.Keys, err = a.vault.RotateMaster(ctx, to)
		return err
	})
	if err != nil {
		return done, err
	}
	a.keeps.become(to)
	if done.From == "keyring" { // a file its owner can see, and remove
		if err := a.leaveKeyring(ctx); err != nil {
			a.o.Log.Warn().Err(err).Msg("the keyring keeps the old master key")
		} else {
			done.From, done.Removed = "", done.From
		}
	}
	return done, nil
}

// settledAlone has the key in force in its place, and nothing else there. Another process may have
// locked the vault, rotated the key or made the move while this one waited for its turn: the caller
// has the lock of the keys.
func (a *App) settledAlone(ctx context.Context) error {
	if err := a.ordered(ctx); err != nil {
		return err
	}
	if err := a.overtaken(ctx); err != nil || a.move != nil {
		return err
	}
	keys, err := a.keeps.wrapper().Keys(ctx)
	if len(keys) == 0 {
		return err
	}
	return a.settleOn(ctx, keys)
}

// overtaken takes up what another process made of the key while this one waited for its turn: a
// rotation, or the move that it is about to make itself. The caller has the lock of the keys.
func (a *App) overtaken(ctx context.Context) error {
	stale, err := a.vault.Stale(ctx)
	if err != nil || !stale {
		return err
	}
	a.followKey()
	keys, missed := a.keeps.wrapper().Keys(ctx)
	if err = a.tryKeys(ctx, keys, missed); err != nil {
		err = a.moved(ctx, err)
	}
	return err
}
