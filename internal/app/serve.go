package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/internal/roster"
	"github.com/kimbap-run/kimbap/internal/runner/netns"
	"github.com/kimbap-run/kimbap/internal/tally"
	"github.com/kimbap-run/kimbap/proxy"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// drain is how long running requests may take after a stop was asked for.
const drain = 10 * time.Second

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
	ln, err := a.listener(o)
	if err != nil {
		return err
	}
	defer a.removeState()
	if err := a.inLedger(context.WithoutCancel(ctx), a.startEvent(ln.Addr())); err != nil {
		_ = ln.Close()
		return err
	}
	endBeside, err := a.serveBeside(ctx, o)
	if err != nil {
		_ = ln.Close()
		return err
	}
	defer a.watching(ctx, o.Reload, proxied{ca, server})()
	done, left := accept(server, ln, o.Room)
	if o.Ready != nil {
		o.Ready(ln.Addr())
	}
	select {
	case err = <-done: // the network of an isolated run goes with its program, before the run is told
		left--
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if ended := server.Shutdown(stopping); err == nil || isEnd(err) { // what is under way has its outcome then
		err = ended
	}
	for range left {
		<-done
	}
	endBeside()
	_ = a.told(record.Event{Kind: "proxy.stop", Principal: a.Operator().ID, Fields: stopFields(ctx, map[string]string{"listen": ln.Addr().String()})})
	if isEnd(err) {
		return nil
	}
	return err
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

// endsWith drains a server when ctx ends, or end is called, which waits for it.
func endsWith(ctx context.Context, drained func(stopping context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-ctx.Done()
		stopping, done := context.WithTimeout(context.Background(), drain)
		defer done()
		drained(stopping)
	}()
	return func() { cancel(); <-ended }
}

// isEnd reports whether a proxy ended so because it was to.
func isEnd(err error) bool {
	return errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded)
}

// listener opens what is listened on, and says so to who may know.
func (a *App) listener(o ServeOptions) (net.Listener, error) {
	if o.Room != nil { // no address of this machine's
		a.addState(roster.Run, "")
		return o.Room.Proxy(), nil
	}
	ln := a.entrance.ln
	if ln == nil {
		var err error
		if ln, err = proxyListener(o.Listen); err != nil {
			return nil, err
		}
	}
	a.listeners.Add(ln.Addr())
	kind := roster.Run
	if o.State {
		kind = roster.Proxy
	}
	a.addState(kind, ln.Addr().String())
	return ln, nil
}

// accept serves what is listened on. Each listener says on done how it ended.
func accept(server *proxy.Server, ln net.Listener, room *netns.Room) (done chan error, listeners int) {
	var direct []net.Listener
	if room != nil {
		direct = room.Direct()
	}
	done = make(chan error, 1+len(direct))
	go func() { done <- server.Serve(ln) }()
	for _, ln := range direct {
		go func() { done <- server.ServeLed(ln, room.Authority) }()
	}
	return done, 1 + len(direct)
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
