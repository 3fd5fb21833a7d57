package app

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/kimbap-run/kimbap/internal/pass"
	"github.com/kimbap-run/kimbap/proxy/peer"
	"github.com/kimbap-run/kimbap/runtime"
)

// nameless reports whether nothing tells here whose a TCP connection is.
func (a *App) nameless() bool { return a.o.Nameless || !peer.Known }

// peer is who is at the other end of a connection to one of our ports.
func (a *App) peer(c net.Conn) runtime.Peer {
	if a.nameless() {
		return runtime.Peer{}
	}
	return peer.Of(c)
}

// passes are those of the proxies over this home.
func (a *App) passes() pass.Keeper {
	return pass.Keeper{
		Home: a.home, Holder: a.self.Name, Alive: a.neighbours.Alive, Clock: a.o.Clock, Log: a.o.Log,
		Mint: func(ctx context.Context, ttl time.Duration) (runtime.Secret, string, time.Time, error) {
			token, info, err := a.CreateToken(ctx, TokenGrant{Agent: "local", Scopes: []string{"*"}, TTL: ttl})
			return token, info.ID, info.Created, err
		},
		Revoke: func(ctx context.Context, id string) error { _, err := a.RevokeToken(ctx, id); return err },
	}
}

// issuePass makes the pass of a proxy, nil where it needs none.
func (a *App) issuePass(ctx context.Context, o ServeOptions) (*pass.Pass, error) {
	if !o.State || o.RequireToken || !a.nameless() {
		return nil, nil
	}
	return a.passes().Issue(ctx)
}

// passOf is the token that programs of this user show to a proxy, "" where the
// kernel names them, or where each has a token of its own.
func (a *App) passOf(r Running) (string, error) {
	if !r.NeedsPass {
		return "", nil
	}
	token, err := a.passes().TokenOf(r.PID)
	if err != nil {
		return "", fmt.Errorf("the token of the proxy at %s: %w", r.Listen, err)
	}
	return token, nil
}

// withoutPass reports whether a shell's proxy is the one that runs, and the token
// in its URL not that one's.
func (a *App) withoutPass(proxy string) bool {
	running := a.Proxies()
	if len(running) == 0 {
		return false
	}
	token, err := a.passOf(running[0])
	at, perr := url.Parse(proxy)
	if err != nil || perr != nil || token == "" || at.Host != running[0].Listen {
		return false
	}
	shown, _ := at.User.Password()
	return shown != token
}
