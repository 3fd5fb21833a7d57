package app

import (
	"context"

	"github.com/kimbap-run/kimbap/runtime"
)

// LogOf returns what the App's log writes to.
func LogOf(a *App) *LogWriter { return a.o.LogTo }

// Watched reports whether somebody is taken to be able to answer now.
func Watched(a *App, ctx context.Context) (bool, error) {
	return a.store.Watched(ctx, runtime.DefaultTenant, a.o.Clock())
}

// SetDisk says how much room the disk of the trail has, until the next look.
func (a *App) SetDisk(free, size uint64) { a.noteSpace(free, size) }

// TellStrangers records how many refused callers were left out, at once.
func (a *App) TellStrangers(ctx context.Context) error { return a.strangers.tell(ctx, true) }
