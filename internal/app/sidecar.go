package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/server"
	"github.com/kimbap-run/kimbap/internal/socket"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
)

// sidecarHome is where the sidecar listens unless it is told another place.
const sidecarHome = "unix:"

// openSidecar serves scripts where it is told until ctx ends or end is called: "unix:" is the
// socket in the home, else "unix:PATH", or host:port, where a token must be shown.
func (a *App) openSidecar(ctx context.Context, where string) (shown string, end func(), err error) {
	if _, err := a.Scripts(); err != nil {
		return "", nil, err
	}
	ln, shown := a.entrance.sidecar, a.entrance.shown
	if ln == nil {
		if ln, shown, err = a.sidecarListener(where); err != nil {
			return "", nil, err
		}
	}
	_, tcp := ln.Addr().(*net.TCPAddr)
	if tcp {
		a.listensAlso(ln)
	}
	s, err := server.New(server.Options{
		Identify: a.identity.Identify, Execute: a.serveScript, Status: a.serveStatus, Resume: a.serveResume, Health: a.Health,
		RequireToken: tcp, Nameless: true, Log: a.o.Log,
	})
	if err != nil {
		return "", nil, errors.Join(err, ln.Close())
	}
	return shown, drainedBeside(ctx, drain, s, ln), nil
}

// serveSidecar opens the sidecar of a proxy, if one is wanted, until ctx ends or end is
// called, which waits until it has ended. The socket of the home is a convenience: where it
// cannot be had the proxy serves without it, and says so. A place that was asked for must be
// had.
func (a *App) serveSidecar(ctx context.Context, o ServeOptions) (end func(), err error) {
	if o.Sidecar == "" {
		return func() {}, nil
	}
	shown, end, err := a.openSidecar(ctx, o.Sidecar)
	if err != nil && o.Sidecar != sidecarHome {
		return nil, err
	}
	if o.SidecarSay != nil {
		o.SidecarSay(shown, err)
	}
	if err != nil {
		return func() {}, nil
	}
	return end, nil
}

func (a *App) sidecarListener(where string) (net.Listener, string, error) {
	path, unix := strings.CutPrefix(where, "unix:")
	if !unix {
		if host, _, err := net.SplitHostPort(where); err != nil || !socket.Loopback(host) {
			return nil, "", &runtime.Error{
				Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("%q is not an address of this machine alone: tokens would be sent in clear", where),
				Hint: "kimbap proxy --sidecar 127.0.0.1:7789, or --sidecar unix:PATH",
			}
		}
		ln, err := socket.Listen(where, "kimbap proxy --sidecar 127.0.0.1:0")
		if err != nil {
			return nil, "", err
		}
		return ln, "http://" + ln.Addr().String(), nil
	}
	if path == "" {
		path = filepath.Join(a.home.Dir, "kimbap.sock")
	}
	ln, err := socket.ListenUnix(path, "kimbap proxy --sidecar unix:PATH")
	return ln, "unix:" + path, err
}

func (a *App) serveScript(ctx context.Context, s server.Script) (server.Answer, error) {
	runner, err := a.Scripts()
	if err != nil {
		return server.Answer{}, err
	}
	script := sandbox.Script{Source: s.Code, Timeout: s.Timeout, Wait: s.Wait, Caller: s.Caller}
	script.Progress = func(stage, text string) {
		if stage == sandbox.StagePaused && s.Waits != nil {
			s.Waits(text)
		}
	}
	for _, glob := range s.Allow {
		script.Allow = append(script.Allow, runtime.Glob(glob))
	}
	result, err := runner.Execute(ctx, script)
	if err != nil && result.ExecutionID == "" {
		err = &server.Undone{Refusal: err}
	}
	return served(result, err)
}

func (a *App) serveStatus(ctx context.Context, caller runtime.Caller, id string) (server.Answer, error) {
	runner, err := a.Scripts()
	if err != nil {
		return server.Answer{}, err
	}
	return served(runner.Status(ctx, caller, id))
}

func (a *App) serveResume(ctx context.Context, caller runtime.Caller, id string, wait time.Duration) (server.Answer, error) {
	runner, err := a.Scripts()
	if err != nil {
		return server.Answer{}, err
	}
	return served(runner.Resume(ctx, sandbox.Resumption{ID: id, Caller: caller, Wait: wait}))
}

// served is a result as the server writes it. One that has neither ended nor says
// why not is still running.
func served(result sandbox.Result, err error) (server.Answer, error) {
	open := result.Paused != nil || !result.Success && result.Kind == ""
	return server.Answer{Body: result, Open: open, ID: result.ExecutionID}, err
}
