package app

import (
	"context"
	"net"

	"github.com/kimbap-run/kimbap/internal/socket"
)

// entrance is what only one process can have: an address, or the place of a home's daemon.
// What Options.Entrance opens is found taken before the trail has a slot for this process:
// one that ends there has nothing to record, and its slot would stay.
type entrance struct {
	ln      net.Listener // nil: not opened yet
	base    string       // its URL, of kimbap serve
	admin   net.Listener // of admin.listen; nil: not opened yet, or there is none
	sidecar net.Listener // of kimbap proxy; nil: not opened yet
	shown   string       // where that is
	daemon  func()       // gives the daemon's place free; nil: not taken yet
}

func (a *App) enter(context.Context) error {
	if a.o.Entrance == nil {
		return nil
	}
	return a.o.Entrance(a)
}

// EnterProxy opens the addresses of kimbap proxy, for Options.Entrance. Sidecar is that of
// ServeOptions; the socket of the home, without which the proxy serves as well, is left to it.
func (a *App) EnterProxy(sidecar string) (err error) {
	if a.entrance.ln, err = a.held(proxyListener(a.Config().Proxy.Listen)); err != nil {
		return err
	}
	if sidecar != "" && sidecar != sidecarHome {
		ln, shown, err := a.sidecarListener(sidecar)
		if a.entrance.sidecar, err = a.held(ln, err); err != nil {
			return err
		}
		a.entrance.shown = shown
	}
	return a.enterAdmin()
}

// EnterAPI opens the addresses of kimbap serve, for Options.Entrance.
func (a *App) EnterAPI(o APIOptions) error {
	ln, base, err := a.apiListener(o)
	if a.entrance.ln, err = a.held(ln, err); err != nil {
		return err
	}
	a.entrance.base = base
	return a.enterAdmin()
}

// EnterMCP opens the address of an MCP server over HTTP, and EnterConsole that of kimbap
// console, for Options.Entrance.
func (a *App) EnterMCP(listen string) (err error) {
	if listen != "" {
		a.entrance.ln, err = a.held(mcpListener(listen))
	}
	return err
}

// EnterConsole opens the address of kimbap console, see EnterMCP.
func (a *App) EnterConsole(listen string) (err error) {
	a.entrance.ln, err = a.held(consoleListener(listen))
	return err
}

// EnterDaemon takes the place of the home's one daemon, for Options.Entrance.
func (a *App) EnterDaemon() error {
	unlock, err := a.onlyDaemon()
	if err == nil {
		a.entrance.daemon = unlock
		a.onClose(func(context.Context) error { unlock(); return nil })
	}
	return err
}

// enterAdmin opens admin.listen, if it is set.
func (a *App) enterAdmin() (err error) {
	if a.Config().Admin.Listen != "" {
		a.entrance.admin, err = a.held(a.adminListener())
	}
	return err
}

// held keeps an address that is open until it is served, or the App closed.
func (a *App) held(ln net.Listener, err error) (net.Listener, error) {
	if err != nil {
		return nil, err
	}
	a.onClose(func(context.Context) error { _ = ln.Close(); return nil }) // who served it has closed it
	return ln, nil
}

func proxyListener(address string) (net.Listener, error) {
	return socket.Listen(address, "kimbap proxy --listen 127.0.0.1:0")
}
