package app

import (
	"context"
	"net"
	"os"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/internal/roster"
	"github.com/kimbap-run/kimbap/internal/runner/netns"
	"github.com/kimbap-run/kimbap/internal/tally"
	"github.com/kimbap-run/kimbap/proxy"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// ServeOptions are what differs between the shared proxy and the private one
// of a run.
type ServeOptions struct {
	Listen       string
	RequireToken bool
	DefaultToken runtime.Secret // of a run: stands in when the client shows none
	Unattended   bool
	CA           *certs.Authority    // nil: the home's own
	Ready        func(addr net.Addr) // called once the listener accepts
	Reload       <-chan os.Signal    // may be nil
	State        bool                // status and env may find it
	Room         *netns.Room         // of an isolated run, instead of Listen: who is in there is the run
	Tally        *tally.Counter      // counts the certificates that are shown; nil: nobody does

	Sidecar    string                        // where scripts are served: "unix:", "unix:PATH" or host:port; "": nowhere
	SidecarSay func(where string, err error) // told where, or why not
}

// Serve runs the proxy until ctx ends, then drains it.
func (a *App) Serve(ctx context.Context, o ServeOptions) error {
	if o.CA == nil {
		if _, err := a.CA(ctx); err != nil && !a.vault.Locked() {
			return err
		}
		a.homeCA = true
	}
	ca := signing{a, o.CA}
	ca.permit(a.Services().Authorities()...)
	server, err := a.newProxy(o, ca)
	if err != nil {
		return err
	}
	if a.pass, err = a.issuePass(ctx, o); err != nil {
		return err
	}
	defer a.pass.End(ctx)
	ln, kind, err := a.listener(o)
	if err != nil {
		return err
	}
	own := serving{kind: kind, ln: ln, event: record.Event{Kind: "proxy", Fields: map[string]string{"listen": ln.Addr().String()}}, reload: o.Reload, follow: proxied{ca, server}}
	if o.Room != nil {
		own.ln = nil // no address of this machine's
	}
	own.serve = func() error {
		endBeside, err := a.serveBeside(ctx, o)
		if err != nil {
			return err
		}
		defer endBeside()
		if o.Ready != nil {
			o.Ready(ln.Addr())
		}
		return drained(ctx, drain, listening{server, o.Room}, ln)
	}
	return a.announced(ctx, own)
}

// serveBeside opens what listens beside a proxy, until ctx ends or end is called, which
// waits until all of it has ended.
func (a *App) serveBeside(ctx context.Context, o ServeOptions) (end func(), err error) {
	endSidecar, err := a.serveSidecar(ctx, o)
	if err != nil || !o.State {
		return endSidecar, err
	}
	endAdmin, err := a.serveAdmin(ctx)
	if err != nil {
		endSidecar()
		return nil, err
	}
	return func() { endSidecar(); endAdmin() }, nil
}

// listener opens what is listened on, and says under which kind status finds it.
func (a *App) listener(o ServeOptions) (net.Listener, roster.Kind, error) {
	kind := roster.Run
	if o.State {
		kind = roster.Proxy
	}
	if o.Room != nil {
		return o.Room.Proxy(), kind, nil
	}
	if ln := a.entrance.ln; ln != nil {
		return ln, kind, nil
	}
	ln, err := proxyListener(o.Listen)
	return ln, kind, err
}

// listening is a proxy on its address and, in the room of an isolated run, on all that its
// program dials.
type listening struct {
	*proxy.Server
	room *netns.Room // nil: no isolated run
}

// Serve returns when one of its listeners has failed, or all have ended.
func (l listening) Serve(ln net.Listener) error {
	all := []net.Listener{ln}
	if l.room != nil {
		all = append(all, l.room.Direct()...)
	}
	done := make(chan error, len(all))
	go func() { done <- l.Server.Serve(ln) }()
	for _, ln := range all[1:] {
		go func() { done <- l.ServeLed(ln, l.room.Authority) }()
	}
	err := <-done
	for _, ln := range all {
		_ = ln.Close()
	}
	for range all[1:] {
		<-done
	}
	return err
}

// inside is whoever connects in the network of an isolated run: the run's
// program, or one that it started, and nobody else.
func inside(net.Conn) runtime.Peer {
	return runtime.Peer{Known: true, UID: os.Geteuid(), Owner: true}
}

func (a *App) newProxy(o ServeOptions, ca signing) (*proxy.Server, error) {
	peer, required := a.peer, o.RequireToken || a.nameless()
	if o.Room != nil {
		peer, required = inside, o.RequireToken
	}
	return proxy.New(proxy.Options{
		Pipeline: a.pipeline, Identity: a.identity, Peer: peer,
		Table: func() proxy.Table { return a.services.Current().Table() },
		Leaf:  o.Tally.Leaf(ca.Leaf), RootPEM: ca.RootPEM, Permits: ca.permits,
		RequireToken: required, DefaultToken: o.DefaultToken, Unattended: o.Unattended,
		InterceptAll: a.interceptsAll, Locked: a.refusal,
		KeepHeads: a.config.Current().Debug.Mutations == "verify",
		Engine:    proxy.Engine(a.config.Current().Proxy.Engine), Limits: a.limits(),
		Approval: a.approvalStatus, Health: a.Health, Notice: a.restartNotice,
		Log: a.o.Log, Clock: a.o.Clock,
	})
}
