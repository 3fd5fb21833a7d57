// Package pass has what stands in for the uid of a caller where the kernel does not name the
// peer of a connection, as on other systems than Linux: a token in a file that only the owner can
// read. A proxy makes it at its start and revokes it at its end.
//
// It says nothing of who a caller is: the token does, like any other. What a proxy that died
// has left is revoked by the next one.
//
// Start reading at [Keeper.Issue].
package pass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// Keeper keeps the passes of the proxies over a home. All of it is required.
type Keeper struct {
	Home   home.Folder
	Holder func() string            // this process, as of [home.Self]; asked for once there is something to hold
	Alive  func(holder string) bool // whether a process still runs
	Clock  func() time.Time
	Log    zerolog.Logger

	// Mint makes a token for the owner's programs, and Revoke ends one that may have ended.
	Mint   func(ctx context.Context, ttl time.Duration) (token runtime.Secret, id string, made time.Time, err error)
	Revoke func(ctx context.Context, id string) error
}

// ttl is how long the token of a pass is valid. A new one is made when half of
// it is over, so that a shell which took it has the other half.
const ttl = 28 * 24 * time.Hour

// Pass stands in for the uid of a peer that the kernel does not name: a token that
// only who can read the owner's files has. A proxy makes it at its start, keeps it
// in the home beside its state, and revokes it at its end.
type Pass struct {
	k Keeper

	mu    sync.Mutex
	kept  kept
	ends  map[string]time.Time // of its tokens, by their ids
	ended bool
}

// kept is the file of a pass.
type kept struct {
	Holder string    `json:"holder"` // as of [home.Self]
	IDs    []string  `json:"ids"`    // of its tokens that may still be valid, the newest last
	Token  string    `json:"token"`
	Renew  time.Time `json:"renew"`
}

// Issue makes the pass of this process. Those that processes left behind end first.
func (k Keeper) Issue(ctx context.Context) (*Pass, error) {
	if err := k.sweep(ctx); err != nil {
		return nil, err
	}
	p := &Pass{k: k, kept: kept{Holder: k.Holder()}, ends: map[string]time.Time{}}
	if err := p.make(ctx); err != nil {
		p.End(ctx)
		return nil, err
	}
	return p, nil
}

// TokenOf is the token that programs of the owner show to the proxy of that process.
func (k Keeper) TokenOf(pid int) (string, error) {
	of, err := read(k.file(pid))
	return of.Token, err
}

// make puts a new token into the file. The one before is not revoked: shells have it. Where
// that cannot be done all is as before, and the new one, which nobody has, ends.
func (p *Pass) make(ctx context.Context) error {
	token, id, made, err := p.k.Mint(ctx, ttl)
	if err != nil {
		return err
	}
	made = made.Round(0) // by the wall: a machine may sleep
	p.ends[id] = made.Add(ttl)
	before := p.kept
	p.kept.IDs = append(p.valid(), id)
	p.kept.Token, p.kept.Renew = token.Reveal(), made.Add(ttl/2)
	if err := p.write(); err != nil {
		if p.k.Revoke(context.WithoutCancel(ctx), id) != nil { // it ends with the others
			before.IDs = p.kept.IDs
		}
		p.kept = before
		return err
	}
	return nil
}

// valid are the tokens that may not have expired.
func (p *Pass) valid() []string {
	now := p.k.Clock()
	return slices.DeleteFunc(slices.Clone(p.kept.IDs), func(id string) bool { return !now.Before(p.ends[id]) })
}

func (p *Pass) write() error {
	text, err := json.Marshal(p.kept)
	if err == nil {
		err = home.Replace(p.k.file(os.Getpid()), text, 0o600)
	}
	return err
}

// Look makes a new token when it is time, and a new file where somebody removed it. A nil
// pass needs none.
func (p *Pass) Look(ctx context.Context) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.k.Clock()
	if p.ended {
		return
	}
	if now.Before(p.kept.Renew) {
		if _, err := os.Lstat(p.k.file(os.Getpid())); errors.Is(err, fs.ErrNotExist) {
			_ = p.write() // at the next look, if not now
		}
		return
	}
	if err := p.make(ctx); err != nil {
		p.kept.Renew = now.Round(0).Add(time.Hour)
		p.k.Log.Warn().Err(err).Msg("no new token for this user's programs")
	}
}

// End revokes it and takes its file away.
func (p *Pass) End(ctx context.Context) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if err := p.k.revoke(context.WithoutCancel(ctx), p.kept, p.k.file(os.Getpid())); err != nil {
		p.k.Log.Error().Err(err).Msg("the token of this user's programs is not revoked")
	}
}

// revoke ends the tokens of a pass, and then its file.
func (k Keeper) revoke(ctx context.Context, of kept, file string) error {
	for _, id := range of.IDs {
		if err := k.Revoke(ctx, id); err != nil {
			return err
		}
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sweep ends those whose process died without a word.
func (k Keeper) sweep(ctx context.Context) error {
	for _, file := range system.Files(k.Home.State(), "proxy-", ".pass") {
		left, err := read(file)
		if err != nil || k.Alive(left.Holder) && file != k.file(os.Getpid()) { // ours is still to be written
			continue
		}
		if err := k.revoke(ctx, left, file); err != nil {
			return err
		}
	}
	return nil
}

func (k Keeper) file(pid int) string {
	return filepath.Join(k.Home.State(), fmt.Sprintf("proxy-%d.pass", pid))
}

func read(file string) (of kept, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &of)
	}
	return of, err
}
