package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

const (
	defaultMaxTTL = 30 * 24 * time.Hour
	skew          = time.Minute // how far a maker's clock may be ahead of ours
)

// Options are what an [Identity] needs. Store and Clock are required.
type Options struct {
	Store  Store
	Clock  func() time.Time
	MaxTTL time.Duration // the longest life of a token; 0: 30 days
}

// Identity knows the callers. It is safe for concurrent use; several processes
// may work on one store.
type Identity struct {
	o      Options
	memory atomic.Pointer[memory] // replaced whole by Forget
	latest atomic.Int64           // the largest time seen, nanoseconds
}

// memory is what was read from the store: hash → *known. Whoever reads writes
// into the memory that was there before the read.
type memory struct{ tokens sync.Map }

// known is a token that exists, with the principal it stands for.
type known struct {
	token     Token
	principal runtime.Principal
}

var _ runtime.Identifier = (*Identity)(nil)

// New refuses Options with something missing or impossible. It does no IO.
func New(o Options) (*Identity, error) {
	switch {
	case o.Store == nil:
		return nil, errors.New("identity: Options.Store is missing")
	case o.Clock == nil:
		return nil, errors.New("identity: Options.Clock is missing")
	case o.MaxTTL < 0:
		return nil, fmt.Errorf("identity: Options.MaxTTL %s is negative", o.MaxTTL)
	case o.MaxTTL == 0:
		o.MaxTTL = defaultMaxTTL
	}
	i := &Identity{o: o}
	i.memory.Store(&memory{})
	return i, nil
}

// Identify implements [runtime.Identifier]. The principal's slices are shared
// and must not be changed.
func (i *Identity) Identify(ctx context.Context, caller runtime.Caller) (runtime.Principal, error) {
	if !caller.Token.Empty() {
		return i.byToken(ctx, caller.Token.Reveal())
	}
	switch {
	case caller.RequireToken:
		return runtime.Principal{}, unauthenticated(runtime.ReasonNoToken, "a kimbap token is required here and none was shown")
	case !caller.Peer.Owner || !caller.Peer.Known:
		return runtime.Principal{}, unauthenticated(runtime.ReasonForeignPeer,
			"without a token only processes of the user who runs kimbap are served, and this one is not, or cannot be known to be")
	}
	return runtime.Principal{
		ID: local(caller.Peer.UID), Kind: runtime.KindAgent, Tenant: runtime.DefaultTenant, Agent: "local",
		Scopes: []runtime.Scope{"*"},
	}, nil
}

// Operator returns the owner at a terminal of their own machine.
func Operator(uid int) runtime.Principal {
	return runtime.Principal{
		ID: local(uid), Kind: runtime.KindOperator, Tenant: runtime.DefaultTenant, Agent: "local",
		Scopes: []runtime.Scope{"*"},
	}
}

func local(uid int) string { return "local:" + strconv.Itoa(uid) }

// byToken finds the token by its hash, so that the time it takes says nothing
// of how much of a guess was right, and judges it at this moment.
func (i *Identity) byToken(ctx context.Context, text string) (runtime.Principal, error) {
	hash := sha256.Sum256([]byte(text))
	memory := i.memory.Load()
	kept, ok := memory.tokens.Load(hash)
	if !ok {
		if !WellFormed(text) {
			return runtime.Principal{}, unauthenticated(runtime.ReasonTokenUnknown,
				"what was shown as a token is not a kimbap token, or has a typo")
		}
		token, found, err := i.o.Store.TokenByHash(ctx, hash)
		if err != nil {
			return runtime.Principal{}, err
		}
		if !found {
			return runtime.Principal{}, unauthenticated(runtime.ReasonTokenUnknown, "no such kimbap token was made here")
		}
		kept, _ = memory.tokens.LoadOrStore(hash, &known{token, token.principal()})
	}
	k := kept.(*known)
	if err := judge(&k.token, i.now()); err != nil {
		return runtime.Principal{}, err
	}
	return k.principal, nil
}

// judge refuses a token that is not valid at this moment. The zero expiry is
// long past.
func judge(t *Token, now time.Time) error {
	switch {
	case !t.Revoked.IsZero():
		return unauthenticated(runtime.ReasonTokenRevoked, "this kimbap token was revoked")
	case !now.Before(t.Expires):
		return unauthenticated(runtime.ReasonTokenExpired, "this kimbap token expired at "+t.Expires.UTC().Format(time.RFC3339))
	case t.Created.After(now.Add(skew)):
		return unauthenticated(runtime.ReasonTokenExpired,
			"this kimbap token is from the future: the clock was set back since it was made at "+t.Created.UTC().Format(time.RFC3339))
	}
	return nil
}

// principal is who a token stands for: always an agent.
func (t *Token) principal() runtime.Principal {
	return runtime.Principal{
		ID: "token:" + t.ID, Kind: runtime.KindAgent, Tenant: t.Tenant, Agent: t.Agent, Roles: t.Roles,
		Scopes: t.Scopes, TokenID: t.ID, Run: t.Run, Expires: t.Expires,
	}
}

// now is the clock, less its jumps back: what has expired stays expired.
func (i *Identity) now() time.Time {
	now := i.o.Clock()
	at := now.UnixNano()
	for {
		latest := i.latest.Load()
		if at <= latest {
			return time.Unix(0, latest)
		}
		if i.latest.CompareAndSwap(latest, at) {
			return now
		}
	}
}

// Forget drops what was read from the store, on its change counter.
func (i *Identity) Forget() { i.memory.Store(&memory{}) }

func unauthenticated(reason runtime.Reason, msg string) error {
	return &runtime.Error{
		Code: runtime.CodeUnauthenticated, Reason: reason, Stage: runtime.StageIdentify, Msg: msg,
		Hint: "ask the operator for a token: kimbap token create --agent NAME --scope 'SERVICE.*'; show it as the proxy's password",
	}
}
