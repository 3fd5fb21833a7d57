package app

import (
	"context"

	"github.com/kimbap-run/kimbap/runtime"
)

// moveMade is a move of the master key that turns out to have been made before.
type moveMade struct {
	from string
	left bool // that place has a key still, which opens nothing here
}

// moved opens the vault where the key that shall move is where it shall go already: who gives
// the command once more would be told to put the old one back. Otherwise the error is why,
// for which the key cannot be had from where it should be.
func (a *App) moved(ctx context.Context, why error) error {
	from, reason := a.o.KeyFrom, runtime.AsError(why).Reason
	if from == "" {
		return why
	}
	switch reason {
	case runtime.ReasonWrongMasterKey, runtime.ReasonNoMasterKey, runtime.ReasonKeyUnavailable:
	default:
		return why
	}
	a.o.KeyFrom = ""
	err := a.findKey(a.config.Current())
	if err == nil {
		err = a.unlockVault(ctx)
	}
	if err != nil {
		return why
	}
	other := keyPlace(from) != keyPlace(a.keySource())
	a.move = &moveMade{from: from, left: other && reason == runtime.ReasonWrongMasterKey}
	return nil
}

// unmoved is what there is to say of a move that had been made.
func (a *App) unmoved(done RotatedMaster) RotatedMaster {
	if done.Already = true; a.move.left {
		done.From = a.move.from
	}
	return done
}
