package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/internal/home"
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

// passTTL is how long the token of a pass is valid. A new one is made when half of
// it is over, so that a shell which took it has the other half.
const passTTL = 28 * 24 * time.Hour

// pass stands in for the uid of a peer that the kernel does not name: a token that
// only who can read the owner's files has. A proxy makes it at its start, keeps it
// in the home beside its state, and revokes it at its end.
type pass struct {
	a *App

	mu    sync.Mutex
	kept  keptPass
	ended bool
}

// keptPass is the file of a pass.
type keptPass struct {
	Holder string    `json:"holder"` // as of [home.Self]
	IDs    []string  `json:"ids"`    // of its tokens that may still be valid, the newest last
	Token  string    `json:"token"`
	Renew  time.Time `json:"renew"`
}

// issuePass makes the pass of a proxy, nil where it needs none. Those that
// processes left behind end first.
func (a *App) issuePass(ctx context.Context, o ServeOptions) (*pass, error) {
	if !o.State || o.RequireToken || !a.nameless() {
		return nil, nil
	}
	if err := a.sweepPasses(ctx); err != nil {
		return nil, err
	}
	p := &pass{a: a, kept: keptPass{Holder: a.self.Name()}}
	if err := p.make(ctx); err != nil {
		p.end(ctx)
		return nil, err
	}
	return p, nil
}

// make puts a new token into the file. The one before is not revoked: shells have it.
func (p *pass) make(ctx context.Context) error {
	token, info, err := p.a.CreateToken(ctx, TokenGrant{Agent: "local", Scopes: []string{"*"}, TTL: passTTL})
	if err != nil {
		return err
	}
	p.kept.IDs = append(p.kept.IDs, info.ID)
	p.kept.IDs = slices.Clone(p.kept.IDs[max(0, len(p.kept.IDs)-2):]) // older ones have expired
	p.kept.Token, p.kept.Renew = token.Reveal(), info.Created.Add(passTTL/2)
	text, err := json.Marshal(p.kept)
	if err == nil {
		err = home.Replace(p.a.passFile(os.Getpid()), text, 0o600)
	}
	return err
}

// look makes a new token when it is time. A nil pass needs none.
func (p *pass) look(ctx context.Context) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.a.o.Clock()
	if p.ended || now.Before(p.kept.Renew) {
		return
	}
	if err := p.make(ctx); err != nil {
		p.kept.Renew = now.Add(time.Hour)
		p.a.o.Log.Warn().Err(err).Msg("no new token for this user's programs")
	}
}

// end revokes it and takes its file away.
func (p *pass) end(ctx context.Context) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if err := p.a.revokePass(context.WithoutCancel(ctx), p.kept, p.a.passFile(os.Getpid())); err != nil {
		p.a.o.Log.Error().Err(err).Msg("the token of this user's programs is not revoked")
	}
}

// revokePass ends the tokens of a pass, and then its file.
func (a *App) revokePass(ctx context.Context, kept keptPass, file string) error {
	for _, id := range kept.IDs {
		if _, err := a.RevokeToken(ctx, id); err != nil {
			return err
		}
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sweepPasses ends those whose process died without a word.
func (a *App) sweepPasses(ctx context.Context) error {
	files, _ := filepath.Glob(filepath.Join(a.home.State(), "proxy-*.pass"))
	for _, file := range files {
		kept, err := readPass(file)
		if err != nil || a.neighbours.Alive(kept.Holder) && file != a.passFile(os.Getpid()) { // ours is still to be written
			continue
		}
		if err := a.revokePass(ctx, kept, file); err != nil {
			return err
		}
	}
	return nil
}

func (a *App) passFile(pid int) string {
	return filepath.Join(a.home.State(), fmt.Sprintf("proxy-%d.pass", pid))
}

func readPass(file string) (keptPass, error) {
	var kept keptPass
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	return kept, err
}

// passOf is the token that programs of this user show to a proxy, "" where the
// kernel names them, or where each has a token of its own.
func (a *App) passOf(r Running) (string, error) {
	if !r.NeedsPass {
		return "", nil
	}
	kept, err := readPass(a.passFile(r.PID))
	if err != nil {
		return "", fmt.Errorf("the token of the proxy at %s: %w", r.Listen, err)
	}
	return kept.Token, nil
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
