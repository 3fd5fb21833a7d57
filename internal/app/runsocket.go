package app

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/internal/lease"
	"github.com/kimbap-run/kimbap/internal/server"
	"github.com/kimbap-run/kimbap/internal/socket"
	"github.com/kimbap-run/kimbap/internal/tally"
	"github.com/kimbap-run/kimbap/runtime"
)

// ofRun is what an App knows of the run that it serves, or of those elsewhere.
type ofRun struct {
	unattended bool
	tally      *tally.Counter // nil: this is no run
	lease      *lease.Lease   // of its token

	lent *tally.Lent // the runs elsewhere that borrow the proxy; nil: none can
}

// runSocket serves this kimbap on sockets in the folder of a run, as the run: who can
// open the folder is its program. The pages of an agent are on one, MCP is on the other.
// It starts no worker before one is asked for. A run works without it, so what goes
// wrong leaves it out: path is "" then. What has been asked is in the tally once stop
// has returned, as far as it can be ended; stop may be called again.
func (a *App) runSocket(dir string, token runtime.Secret, version string) (path string, stop func()) {
	path = filepath.Join(dir, "kimbap.sock")
	as := asRun(token)
	end, err := a.listenForRun(path, as)
	if err != nil {
		a.o.Log.Info().Err(err).Msg("no socket for this run")
		return "", func() {}
	}
	hangUp, err := a.mcpForRun(MCPSocket(path), as, version)
	if err != nil {
		a.o.Log.Info().Err(err).Msg("no MCP socket for this run")
		hangUp = func() {}
	}
	return path, sync.OnceFunc(func() {
		hangUp()
		end()
	})
}

// afterEnd is how long what the program of a run has asked may take when that has ended.
const afterEnd = time.Second

// asRun takes who shows no token for the run's program, as at its proxy. On a system
// that does not say who connects, the modes of folder and socket have said it.
func asRun(token runtime.Secret) func(runtime.Caller) runtime.Caller {
	return func(c runtime.Caller) runtime.Caller {
		if c.Token.Empty() && (c.Peer.Owner || !c.Peer.Known) {
			c.Token = token
		}
		return c
	}
}

func (a *App) listenForRun(path string, as func(runtime.Caller) runtime.Caller) (end func(), err error) {
	if _, err := a.Scripts(); err != nil {
		return nil, err
	}
	ln, err := socket.ListenUnix(path, "kimbap run --help")
	if err != nil {
		return nil, err
	}
	s, err := server.New(server.Options{
		Identify: a.identity.Identify, Execute: a.serveScript, Status: a.serveStatus, Resume: a.serveResume,
		Agent: apiAgent{a, runtime.SurfaceCall}, Assume: as, Health: a.Health, Log: a.o.Log, Clock: a.o.Clock,
	})
	if err != nil {
		_ = ln.Close()
		return nil, err
	}
	return drainedBeside(context.Background(), afterEnd, s, ln), nil
}
