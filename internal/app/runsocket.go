package app

import (
	"context"
	"path/filepath"
	"time"

	"github.com/kimbap-run/kimbap/internal/server"
	"github.com/kimbap-run/kimbap/runtime"
)

// ofRun is what an App that serves one run knows of it.
type ofRun struct {
	unattended bool
	tally      *Tally // nil: this is no run
	lease      *lease // of its token
}

// runSocket serves scripts on a socket in the folder of a run, as the run: who can
// open the folder is its program. It starts no worker before one is asked for. A
// run works without it, so what goes wrong leaves it out: path is "" then.
func (a *App) runSocket(dir string, token runtime.Secret) (path string, stop func()) {
	path = filepath.Join(dir, "kimbap.sock")
	side, err := a.listenForRun(path, token)
	if err != nil {
		a.o.Log.Info().Err(err).Msg("no socket for this run")
		return "", func() {}
	}
	return path, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second) // its program has ended
		defer cancel()
		side.close(ctx)
	}
}

func (a *App) listenForRun(path string, token runtime.Secret) (*sidecar, error) {
	if _, err := a.Scripts(); err != nil {
		return nil, err
	}
	ln, err := listenUnix(path)
	if err != nil {
		return nil, err
	}
	// Who shows no token is the run's program, as at its proxy. On a system that
	// does not say who connects, the modes of folder and socket have said it.
	as := func(c runtime.Caller) runtime.Caller {
		if c.Token.Empty() && (c.Peer.Owner || !c.Peer.Known) {
			c.Token = token
		}
		return c
	}
	s, err := server.New(server.Options{
		Execute: func(ctx context.Context, s server.Script) (server.Answer, error) {
			s.Caller = as(s.Caller)
			return a.serveScript(ctx, s)
		},
		Status: func(ctx context.Context, c runtime.Caller, id string) (server.Answer, error) {
			return a.serveStatus(ctx, as(c), id)
		},
		Resume: func(ctx context.Context, c runtime.Caller, id string, wait time.Duration) (server.Answer, error) {
			return a.serveResume(ctx, as(c), id, wait)
		},
		Health: a.Health, Log: a.o.Log,
	})
	if err != nil {
		_ = ln.Close()
		return nil, err
	}
	side := &sidecar{server: s, where: "unix:" + path, done: make(chan error, 1)}
	go func() { side.done <- s.Serve(ln) }()
	return side, nil
}
