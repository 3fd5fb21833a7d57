package connector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// When a token is renewed, and how a provider that fails is treated.
const (
	spare, aTenth = time.Minute, 10    // a token that ends sooner is of no use: a request takes time
	early, aFifth = 5 * time.Minute, 5 // one that ends sooner is renewed, if the provider can
	renewal       = 20 * time.Second
	firstPause    = 5 * time.Second
	longestWait   = 30 * time.Second
	patience      = 2 * time.Second // of a request that has a token which is still good
	ending        = 6 * time.Second // that the end of a process waits for a renewal and for the database
)

// Events that stand in the trail. A result says that a grant is over, and why, or that it
// could not be given back.
const (
	EventRefresh = "oauth.refresh"
	EventOver    = "oauth.over"
	EventRevoke  = "oauth.revoke"
)

// errOver is of a grant that the provider has ended (RFC 6749 section 5.2, invalid_grant).
var errOver = errors.New("the provider has ended the grant")

// token is the credential with an access token that is good now in the place of the grant,
// and whether a provider was waited for.
func (c *Connector) token(ctx context.Context, at place, cred runtime.Credential) (got runtime.Credential, waited bool, err error) {
	g, err := c.grant(at, cred)
	if err != nil {
		return got, false, err
	}
	now := c.o.Clock()
	if newer := c.held(ctx, at, cred.Value); newer != nil {
		g = newer
	}
	refused := c.isSpent(at, g)
	if !refused && g.good(now, early, aFifth) {
		return c.lent(at, cred, g), false, nil
	}
	fallback := runtime.Credential{}
	if g.good(now, spare, aTenth) {
		fallback = c.lent(at, cred, g)
	}
	if err := c.refusedNow(at, g, now); err != nil {
		got, err = orToken(fallback, err)
		return got, false, err
	}
	done := c.flight.DoChan(string(at.tenant)+"\x00"+at.name, func() (any, error) {
		return c.renewed(context.WithoutCancel(ctx), at) // whoever waits may leave: a refresh token that was used must be replaced
	})
	var long <-chan time.Time
	if fallback.Found() && !refused { // of one that was refused nobody hurries to be refused again
		long = time.After(patience)
	}
	select {
	case r := <-done:
		if r.Err != nil {
			got, err = orToken(fallback, r.Err)
			return got, true, err
		}
		return r.Val.(runtime.Credential), true, nil
	case <-long:
		return fallback, true, nil
	case <-ctx.Done():
		got, err = orToken(fallback, ctx.Err())
		return got, true, err
	}
}

// lent is a stored credential with the access token of its grant.
func (c *Connector) lent(at place, cred runtime.Credential, g *Grant) runtime.Credential {
	cred.Value = runtime.NewSecret(g.AccessToken)
	cred.Beside = g.beside(c.o.Clock(), cred.Authorities)
	cred.Refused = func(named bool) { c.refused(at, g, named) }
	return cred
}

func orToken(fallback runtime.Credential, err error) (runtime.Credential, error) {
	if fallback.Found() {
		return fallback, nil
	}
	return runtime.Credential{}, err
}

// renewed is renew whose panic is an error: singleflight would end the process with it.
func (c *Connector) renewed(ctx context.Context, at place) (got runtime.Credential, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			err = &runtime.Error{
				Code: runtime.CodeInternal, Reason: runtime.ReasonOAuthRefreshFailed, Stage: runtime.StageCredential,
				Msg: "the renewal of " + at.name + " failed", Hint: "see the log of the kimbap process", Err: fmt.Errorf("panic: %v", broken),
			}
		}
	}()
	return c.renew(ctx, at)
}

// renew asks for a token, alone among the processes over this home, unless another one has
// done so meanwhile.
func (c *Connector) renew(ctx context.Context, at place) (runtime.Credential, error) {
	turn, cancel := context.WithTimeout(ctx, renewal)
	defer cancel()
	unlock, err := c.o.Lock(turn, at.tenant, at.name)
	if err != nil {
		return runtime.Credential{}, unlocked(err, turn.Err() != nil)
	}
	defer func() { unlock() }()
	if err := c.begin(); err != nil {
		return runtime.Credential{}, err
	}
	defer c.running.Done()
	g, cred, err := c.newest(ctx, at)
	if err != nil {
		return runtime.Credential{}, err
	}
	if !c.isSpent(at, g) && g.good(c.o.Clock(), early, aFifth) {
		return c.lent(at, cred, g), nil
	}
	if err := c.refusedNow(at, g, c.o.Clock()); err != nil {
		return runtime.Credential{}, err
	}
	got, kept, err := c.ask(ctx, at, g, cred)
	if !kept {
		c.running.Add(1)
		go c.insist(ctx, at, unlock)
		unlock = func() {}
	}
	return got, err
}

// unlocked is the error of a grant that could not be locked: another process has it, or had it
// for too long, or the disk or the database of the locks does not work.
func unlocked(err error, late bool) error {
	e := &runtime.Error{Code: runtime.CodeStorageBusy, Stage: runtime.StageCredential, Reason: runtime.ReasonOAuthRefreshFailed, Err: err}
	cause := runtime.AsError(err)
	if late || cause.Code == runtime.CodeStorageBusy && cause.Reason != runtime.ReasonStorageUnavailable {
		e.Msg, e.Hint = "another kimbap process is renewing this OAuth grant", "try again"
		return e
	}
	e.Code, e.Reason, e.RetryAfter = cause.Code, cmp.Or(cause.Reason, e.Reason), cause.RetryAfter
	e.Msg, e.Hint = "the OAuth grant cannot be locked for its renewal", "see the log of the kimbap process"
	return e
}

// ask has the provider renew a grant, and stores what it gave, or that it gives no more. It is
// not kept where something came that could not be stored.
func (c *Connector) ask(ctx context.Context, at place, g *Grant, cred runtime.Credential) (got runtime.Credential, kept bool, err error) {
	if err := c.o.Note(ctx, at.tenant, EventRefresh, at.name, ""); err != nil {
		return got, true, err
	}
	asking, cancel := context.WithTimeout(ctx, renewal) // all of it, however long others took: what is asked for must arrive
	defer cancel()
	next, err := c.exchange(c.with(asking, g), g)
	switch {
	case errors.Is(err, errOver):
		return got, true, c.end(ctx, at, g, cred.Value)
	case err != nil:
		return got, true, c.failed(ctx, at, g, cred.Value, err)
	}
	c.mu.Lock()
	delete(c.failing, at)
	c.mu.Unlock()
	for _, part := range next.secrets() {
		c.o.Keeper.Hide(part)
	}
	return c.lent(at, cred, next), c.replace(ctx, at, next, g, cred.Value), nil
}

// newest is the grant as it is stored now, whoever has stored it, or one that waits to be.
func (c *Connector) newest(ctx context.Context, at place) (*Grant, runtime.Credential, error) {
	c.o.Keeper.Forget()
	cred, err := c.o.Vault.Credential(ctx, at.tenant, &runtime.Auth{Type: runtime.AuthBearer, Ref: at.name})
	if err != nil {
		return nil, runtime.Credential{}, err
	}
	if !IsGrant(cred.Value) {
		return nil, runtime.Credential{}, &runtime.Error{Code: runtime.CodeNoCredential, Stage: runtime.StageCredential, Msg: "the OAuth grant was taken away meanwhile", Hint: "try again"}
	}
	g, err := c.grant(at, cred)
	if err != nil {
		return nil, runtime.Credential{}, err
	}
	if held := c.held(ctx, at, cred.Value); held != nil {
		g = held
	}
	return g, cred, nil
}

// end notes once that a grant is over, so that its provider is not asked again.
func (c *Connector) end(ctx context.Context, at place, g *Grant, was runtime.Secret) error {
	ended := *g
	ended.Over, ended.AccessToken, ended.RefreshToken, ended.Previous, ended.Paused = "invalid_grant", "", "", "", pause{}
	if err := c.o.Note(ctx, at.tenant, EventOver, at.name, ended.Over); err != nil {
		return err
	}
	if !c.replace(ctx, at, &ended, g, was) {
		c.goOn(ctx)
	}
	return over(at.name, &ended)
}

// over is the error of a grant that gives no token any more.
func over(name string, g *Grant) error {
	why := "the OAuth provider has ended the grant " + name
	if g.Over == "" {
		why = "the access token of " + name + " has expired, and the provider gave nothing to renew it with"
	}
	return &runtime.Error{
		Code: runtime.CodeNoCredential, Reason: runtime.ReasonOAuthRefreshFailed, Stage: runtime.StageCredential,
		Msg: why, Hint: "the owner of this kimbap signs in anew: kimbap link SERVICE",
	}
}
