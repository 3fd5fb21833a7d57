package identity

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Options are what an [Identity] needs. Store and Clock are required.
type Options struct {
	Store  Store
	Clock  func() time.Time
	MaxTTL time.Duration // longest life of a token; 0: 30 days

	// Current is asked before anybody is identified. It returns when what is remembered is as
	// new as may be expected; with an error nobody is identified. nil: it always is.
	Current func(context.Context) error
}

// Identity identifies callers. It is safe for concurrent use. Tokens that were
// looked up once are remembered until [Identity.Forget].
type Identity struct {
	o      Options
	known  atomic.Pointer[sync.Map] // [32]byte → *Token
	tries  tries
	latest atomic.Int64 // largest time seen, Unix nanoseconds
}

var _ runtime.Identifier = (*Identity)(nil)

// New checks the options.
func New(o Options) (*Identity, error) {
	if o.Store == nil || o.Clock == nil {
		return nil, errors.New("identity: Options.Store and Options.Clock are required")
	}
	if o.MaxTTL < 0 {
		return nil, errors.New("identity: Options.MaxTTL is negative")
	}
	if o.MaxTTL == 0 {
		o.MaxTTL = 30 * 24 * time.Hour
	}
	i := &Identity{o: o}
	i.Forget()
	return i, nil
}

// Forget drops what is remembered of tokens, so that a revocation by another
// process counts from now on.
func (i *Identity) Forget() { i.known.Store(&sync.Map{}) }

// now never goes back: what has expired stays expired when the clock is set
// back while we run.
func (i *Identity) now() time.Time {
	for {
		now, latest := i.o.Clock(), i.latest.Load()
		if now.UnixNano() <= latest {
			return time.Unix(0, latest)
		}
		if i.latest.CompareAndSwap(latest, now.UnixNano()) {
			return now
		}
	}
}

// Identify implements [runtime.Identifier]. A token that is shown decides alone:
// a bad one is refused also when the peer is the owner. A source that shows many
// that nobody knows is told to wait (CodeRateLimited).
func (i *Identity) Identify(ctx context.Context, caller runtime.Caller) (runtime.Principal, error) {
	if i.o.Current != nil {
		if err := i.o.Current(ctx); err != nil {
			return runtime.Principal{}, err
		}
	}
	if !caller.Token.Empty() {
		return i.byToken(ctx, caller.Token, caller.Source, i.find)
	}
	if caller.RequireToken {
		return runtime.Principal{}, refused(runtime.ReasonNoToken, "a kimbap token is required here and none was shown")
	}
	if caller.Peer.Unasked {
		return runtime.Principal{}, refused(runtime.ReasonForeignPeer, "the kernel could not be asked whose program this is, as when no descriptor is left; the next connection may be known")
	}
	if !caller.Peer.Owner || !caller.Peer.Known {
		return runtime.Principal{}, refused(runtime.ReasonForeignPeer, "without a token only programs of the user who runs kimbap are served")
	}
	return local(caller.Peer.UID, runtime.KindAgent), nil
}

// Anew is [Identity.Identify] by what the store says of the token now, whatever is remembered
// of it. What is remembered of others stays: a caller can ask for this as often as it likes.
func (i *Identity) Anew(ctx context.Context, caller runtime.Caller) (runtime.Principal, error) {
	if caller.Token.Empty() {
		return i.Identify(ctx, caller)
	}
	return i.byToken(ctx, caller.Token, caller.Source, i.lookUp)
}

// Operator is the owner at the terminal, who may decide approvals and make tokens.
func Operator(uid int) runtime.Principal { return local(uid, runtime.KindOperator) }

func local(uid int, kind runtime.Kind) runtime.Principal {
	return runtime.Principal{
		ID: "local:" + strconv.Itoa(uid), Kind: kind, Tenant: runtime.DefaultTenant,
		Agent: "local", Scopes: []runtime.Scope{"*"},
	}
}

// byToken is who a token is of, by what find says of its hash.
func (i *Identity) byToken(ctx context.Context, token runtime.Secret, source string, find func(context.Context, [32]byte) (*Token, error)) (runtime.Principal, error) {
	if !wellFormed(token.Reveal()) {
		return runtime.Principal{}, i.wrong(source, "what was shown is not a kimbap token")
	}
	t, err := find(ctx, hashOf(token))
	if err != nil {
		return runtime.Principal{}, err
	}
	switch now := i.now(); {
	case t == nil:
		return runtime.Principal{}, i.wrong(source, "the token is not known here")
	case t.State(now) == stateRevoked:
		return runtime.Principal{}, revoked(t)
	case t.State(now) == stateExpired:
		return runtime.Principal{}, refused(runtime.ReasonTokenExpired, "the token has expired")
	case now.Before(t.Created.Add(-time.Minute)):
		e := refused(runtime.ReasonTokenExpired, "the token is not valid yet: the clock was ahead when it was made, or is behind now")
		e.Hint = "the owner sets the clock of this machine; where that is right, a new token: kimbap token create --agent NAME --scope GLOB"
		return runtime.Principal{}, e
	}
	return runtime.Principal{
		ID: t.Principal(), Kind: runtime.KindAgent, Tenant: t.Tenant, Agent: t.Agent, Run: t.Run,
		Roles: t.Roles, Groups: t.Groups, Scopes: t.Scopes, TokenID: t.ID, Expires: t.Expires,
	}, nil
}

// find looks a hash up, in memory first; nil when there is no such token.
func (i *Identity) find(ctx context.Context, hash [32]byte) (*Token, error) {
	if t, ok := i.known.Load().Load(hash); ok {
		return t.(*Token), nil
	}
	return i.lookUp(ctx, hash)
}

// storeTime is how long the store may take to say whose a token is.
const storeTime = 10 * time.Second

// lookUp asks the store and remembers what it says. Only tokens that exist are remembered,
// so that guessing fills nothing. A caller that leaves meanwhile does not end that: its request
// is recorded, and as whose.
func (i *Identity) lookUp(ctx context.Context, hash [32]byte) (*Token, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	known := i.known.Load()
	t, found, err := i.o.Store.TokenByHash(ctx, hash)
	if err != nil || !found {
		if err == nil {
			known.Delete(hash)
		}
		return nil, err
	}
	// Into the map that was current before the look-up: a Forget in between
	// has replaced it, and what was read before it must not outlive it.
	known.Store(hash, &t)
	return &t, nil
}

// revoked is the error of a token that was. The program of a run cannot be given
// another one while it goes on.
func revoked(t *Token) *runtime.Error {
	e := refused(runtime.ReasonTokenRevoked, "the token was revoked")
	if t.Run != "" {
		e.Msg = "the token of this run was revoked: the run was ended, or the vault was locked"
		e.Hint = "the owner starts the run again, once the vault is open: kimbap run -- COMMAND"
	}
	return e
}

func refused(reason runtime.Reason, msg string) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeUnauthenticated, Reason: reason, Stage: runtime.StageIdentify, Msg: msg,
		Hint: "show a token as user or password of the proxy URL; the owner makes one with: kimbap token create --agent NAME --scope GLOB",
	}
}
