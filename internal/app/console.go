package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/kimbap-run/kimbap/internal/roster"
	"github.com/kimbap-run/kimbap/internal/server"
	"github.com/kimbap-run/kimbap/internal/server/console"
	"github.com/kimbap-run/kimbap/internal/socket"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// ConsoleOptions are what `kimbap console` is told.
type ConsoleOptions struct {
	Listen string
	// Link is told where the owner signs in, once with each link; from is the address that
	// has used the one before, "" for the first.
	Link   func(url, from string)
	Reload <-chan os.Signal // may be nil
}

// ServeConsole serves the page for browsers to the owner, on this machine alone, until ctx
// ends.
func (a *App) ServeConsole(ctx context.Context, o ConsoleOptions) error {
	ln, err := a.entrance.ln, error(nil)
	if ln == nil {
		if ln, err = consoleListener(o.Listen); err != nil {
			return err
		}
	}
	owner := a.Local()
	var pages *console.Console
	link := func(from string) { o.Link("http://"+ln.Addr().String()+pages.Invite(), from) }
	pages, err = a.newConsole(console.Options{Base: console.Hidden(), Owner: &owner, SignedIn: link})
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	s, err := server.NewConsole(server.Options{Console: pages, RequireToken: true, Nameless: true, Log: a.o.Log, Clock: a.o.Clock})
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	event := record.Event{Kind: "console", Tenant: a.tenant, Fields: map[string]string{"listen": ln.Addr().String()}}
	return a.announced(ctx, serving{kind: roster.Console, ln: ln, event: event, reload: o.Reload, follow: unproxied{}, serve: func() error {
		link("")
		return drained(ctx, drain, s, ln)
	}})
}

// consoleListener listens on this machine alone.
func consoleListener(where string) (net.Listener, error) {
	if host, _, err := net.SplitHostPort(where); err != nil || !socket.Loopback(host) {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonInsecureScheme, Msg: fmt.Sprintf("%q is not an address of this machine alone", where),
			Hint: "kimbap console --listen 127.0.0.1:0; for others: kimbap serve --console, with --tls-cert and --tls-key",
		}
	}
	return socket.Listen(where, "kimbap console --listen 127.0.0.1:0")
}

// apiConsole is the console of an API, for which a token signs in; nil without one. Over TLS, its
// own or that of a proxy before it (serve.url), messages can link to it, and its cookie goes to no
// port in clear; else its place is hidden.
func (a *App) apiConsole(o APIOptions) (*console.Console, error) {
	if !o.Console {
		return nil, nil
	}
	origin := a.config.Current().Serve.Origin()
	if o.Cert == "" && origin == "" {
		return a.newConsole(console.Options{Base: console.Hidden()})
	}
	return a.newConsole(console.Options{Base: "/console/", Secure: true, Origin: origin})
}

// newConsole makes the pages over this App.
func (a *App) newConsole(o console.Options) (*console.Console, error) {
	o.Desk, o.Status, o.Keep, o.Clock = consoleDesk{a}, server.StatusOf, socket.Keep, a.o.Clock
	o.Failed = func(status int, err error) {
		e := runtime.AsError(err)
		a.o.Log.Info().Str("code", string(e.Code)).Str("reason", string(e.Reason)).AnErr("error", e.Err).Int("status", status).Msg("console")
	}
	return console.New(o)
}
