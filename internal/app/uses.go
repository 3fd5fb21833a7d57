package app

import (
	"context"
	"time"
)

// usesEvery is how often a process that serves stores when credentials were last used. It
// needs no store to have been quick: it is late by this much at most, also after a kill.
const usesEvery = 5 * time.Second

// keepUses does so until ctx ends. It has a goroutine of its own: a store that hangs may
// not delay the watch, by which revocations are seen.
func (a *App) keepUses(ctx context.Context) {
	tick := time.NewTicker(usesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = a.vault.Flush(ctx) // what could not be stored comes with the next
		}
	}
}

// lastUses stores them at the end of a process. That it cannot is no error of what the
// process has done: whoever reads of one takes that for not done, and does it again.
func (a *App) lastUses(ctx context.Context) error {
	if err := a.vault.Flush(ctx); err != nil {
		a.o.Log.Info().Err(err).Msg("when credentials were last used could not be stored")
	}
	return nil
}
