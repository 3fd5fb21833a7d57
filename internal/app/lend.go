package app

import (
	"context"
	"net"
	"sync"

	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/internal/server"
	"github.com/kimbap-run/kimbap/internal/tally"
	"github.com/kimbap-run/kimbap/proxy"
	"github.com/kimbap-run/kimbap/runtime"
)

// lender is the proxy that `kimbap serve --proxy` lends. It has no address: its
// connections come from the API, which has asked for their token.
type lender struct {
	signing
	proxy *proxy.Server
	conns *handover
	runs  *tally.Lent
}

var _ server.Lender = (*lender)(nil)

// newLender makes a proxy for connections that are handed over.
func (a *App) newLender(ctx context.Context) (*lender, error) {
	if _, err := a.CA(ctx); err != nil && !a.vault.Locked() {
		return nil, err
	}
	a.homeCA = true
	l := &lender{
		signing: signing{a, nil}, conns: &handover{conns: make(chan net.Conn), closed: make(chan struct{})},
		runs: tally.NewLent(a.o.Clock),
	}
	a.run.lent = l.runs
	l.permit(a.Services().Authorities()...)
	var err error
	l.proxy, err = a.newProxy(ServeOptions{RequireToken: true}, l.signing)
	return l, err
}

// follower is what the watch keeps in step.
func (l *lender) follower() follower {
	if l == nil {
		return unproxied{}
	}
	return proxied{l.signing, l.proxy}
}

// beside serves what is handed over until ctx ends or end is called, which waits for it.
func (l *lender) beside(ctx context.Context) (end func()) {
	if l == nil {
		return func() {}
	}
	return drainedBeside(ctx, drain, l.proxy, l.conns)
}

// Authorities implements [server.Lender].
func (l *lender) Authorities() []string {
	out := []string{}
	for _, authority := range l.a.authorities() {
		if _, port, err := net.SplitHostPort(authority); err == nil && port != "443" && port != "80" {
			out = append(out, authority)
		}
	}
	return out
}

// Take implements [server.Lender].
func (l *lender) Take(conn net.Conn, who runtime.Principal, caller runtime.Caller) {
	leave, counted := l.runs.Enter(who, caller.Via.Run)
	if !counted {
		caller.Via.Run = ""
	}
	known := &proxy.Known{Conn: conn, Caller: caller, Owner: who.Owner(), Left: leave}
	if !l.conns.put(known) {
		_ = known.Close()
	}
}

// Counts are what became of the requests of a run at one moment.
type Counts = outfit.Counts

// Run implements [server.Lender].
func (l *lender) Run(ctx context.Context, who runtime.Principal, run string) (any, error) {
	counted := l.runs.Ended(ctx, who, run)
	if counted == nil {
		return nil, unknownID("run", run)
	}
	counts := counted.Counts()
	if who.Run != "" { // the token ends with it
		counts.Undecided = l.a.undecided(ctx, who)
	}
	return counts, nil
}

// handover is a listener of connections that come from elsewhere than an address.
type handover struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// put hands a connection over; false means that nobody takes it any more.
func (h *handover) put(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.closed:
		return false
	}
}

// Accept implements [net.Listener].
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (h *handover) Close() error { h.once.Do(func() { close(h.closed) }); return nil }

// Addr implements [net.Listener].
func (h *handover) Addr() net.Addr { return &net.TCPAddr{} }
