package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/kimbap-run/kimbap/internal/roster"
	"github.com/kimbap-run/kimbap/internal/server"
	"github.com/kimbap-run/kimbap/internal/socket"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// DaemonKnowsPeers says whether a daemon knows here whose a connection is; where it
// does not it serves tokens alone.
const DaemonKnowsPeers = server.PeersKnown

// DaemonOptions are what `kimbap daemon` is told.
type DaemonOptions struct {
	Listener net.Listener // a socket that was opened for it; nil: it makes that of the home
	Ready    func(socket string)
	Reload   <-chan os.Signal // may be nil
}

// ServeDaemon serves the commands of this user on a socket until ctx ends or it is
// asked to end. There is one of a home.
func (a *App) ServeDaemon(ctx context.Context, o DaemonOptions) error {
	if a.entrance.daemon == nil {
		if err := a.EnterDaemon(); err != nil {
			return err
		}
	}
	defer a.entrance.daemon()
	ln, err := o.Listener, error(nil)
	if ln == nil {
		if ln, err = socket.ListenUnix(a.home.DaemonSocket(), "do without, or with a home elsewhere: kimbap daemon --home DIR"); err != nil {
			return err
		}
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	s, err := server.New(server.Options{
		Identify: a.identity.Identify, Execute: a.daemonScript, Status: a.serveStatus, Resume: a.serveResume, Health: a.Health, Notice: a.restartNotice, Log: a.o.Log, Clock: a.o.Clock,
		Agent: apiAgent{a, runtime.SurfaceCall}, Shutdown: end, Cause: true,
	})
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	event := record.Event{Kind: "daemon", Fields: map[string]string{"socket": ln.Addr().String()}}
	return a.announced(ctx, serving{kind: roster.Daemon, ln: ln, event: event, reload: o.Reload, follow: unproxied{}, serve: func() error {
		if o.Ready != nil {
			o.Ready(ln.Addr().String())
		}
		return drained(ctx, drain, s, ln)
	}})
}

// daemonScript runs a script as the command would by itself: it lowers no limit unasked.
func (a *App) daemonScript(ctx context.Context, s server.Script) (server.Answer, error) {
	if err := a.tooLong(s.Timeout); err != nil {
		return server.Answer{}, err
	}
	return a.serveScript(ctx, s)
}

// onlyDaemon keeps a second daemon of the home out, until unlock is called or this
// process ends, however it ends.
func (a *App) onlyDaemon() (unlock func(), err error) {
	file, err := os.OpenFile(a.home.DaemonLock(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err = system.TryLock(file); err == nil {
		return func() { _ = file.Close() }, nil
	}
	_ = file.Close()
	if errors.Is(err, system.ErrTaken) {
		err = &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonPortInUse, Msg: "a daemon of this home runs already" + a.daemonPID(), Hint: "kimbap daemon --stop",
		}
	}
	return nil, err
}

// daemonPID names the process of the daemon that runs, "" while it only starts.
func (a *App) daemonPID() string {
	if pid := DaemonPID(a.home); pid != 0 {
		return fmt.Sprintf(", pid %d", pid)
	}
	return ""
}

// DaemonPID is the process of a home's daemon, 0 when none has said that it serves.
func DaemonPID(home Home) int {
	if running := roster.Folder(home.State()).Serving(roster.Daemon); len(running) > 0 {
		return running[0].PID
	}
	return 0
}
