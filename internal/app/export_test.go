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

// TellCrowds records how many refusals were left out of the trail, at once.
func (a *App) TellCrowds(ctx context.Context) error { return a.crowded.tell(ctx, true) }

// Listens are the addresses that this process says are nobody's to reach.
func (a *App) Listens() (out []string) {
	for _, at := range a.listeners.All() {
		out = append(out, at.String())
	}
	return out
}

// MCPForRun serves MCP on a socket as a run does, to callers as they are.
func (a *App) MCPForRun(path string) (hangUp func(), err error) {
	return a.mcpForRun(path, func(c runtime.Caller) runtime.Caller { return c }, "test")
}
