package app

import (
	"context"
	"net"

	"github.com/kimbap-run/kimbap/internal/socket"
)

// entrance is what only one process can have: an address, or the place of a home's daemon.
// What Options.Entrance opens is found taken before the trail has a slot for this process:
// one that ends there has nothing to record, and its empty slot would stay.
type entrance struct {
	ln     net.Listener // nil: not opened yet
	base   string       // its URL, of kimbap serve
	daemon func()       // gives the daemon's place free; nil: not taken yet
}

func (a *App) enter(context.Context) error {
	if a.o.Entrance == nil {
		return nil
	}
	return a.o.Entrance(a)
}

// EnterProxy opens the address of kimbap proxy, for Options.Entrance.
func (a *App) EnterProxy() error {
	ln, err := proxyListener(a.Config().Proxy.Listen)
	if err == nil {
		a.entered(entrance{ln: ln})
	}
	return err
}

// EnterAPI opens the address of kimbap serve, for Options.Entrance.
func (a *App) EnterAPI(o APIOptions) error {
	ln, base, err := a.apiListener(o)
	if err == nil {
		a.entered(entrance{ln: ln, base: base})
	}
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

// entered keeps an address that is open until it is served, or the App closed.
func (a *App) entered(e entrance) {
	a.entrance = e
	a.onClose(func(context.Context) error { _ = e.ln.Close(); return nil }) // who served it has closed it
}

func proxyListener(address string) (net.Listener, error) {
	return socket.Listen(address, "kimbap proxy --listen 127.0.0.1:0")
}
