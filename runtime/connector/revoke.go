package connector

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// giving is how long a grant's return may take, with the wait for a renewal of it: somebody
// waits, and what is removed here is removed all the same.
const giving = 10 * time.Second

// Returned is what became of a grant that is not wanted any more.
type Returned string

// What can become of one.
const (
	Nothing Returned = ""        // there was none, or its provider has ended it
	Given   Returned = "given"   // its provider has been told
	Alive   Returned = "alive"   // its provider takes none back, could not be told, or would end a stored one with it
	Lasting Returned = "lasting" // a token of the client itself, as with [Alive]; it ends by itself
)

// Revoke gives a stored grant back to its provider (RFC 7009), or the one that could not be stored
// yet in its place. With an error it is [Alive], or it cannot be told whether there was one.
func (c *Connector) Revoke(ctx context.Context, tenant runtime.Tenant, name string) (Returned, error) {
	ctx, cancel := context.WithTimeout(ctx, giving)
	defer cancel()
	unlock, err := c.o.Lock(ctx, tenant, name) // what a renewal is about to get is to be given back, not what it had
	if err != nil {
		return Nothing, err
	}
	defer unlock()
	c.o.Keeper.Forget()
	cred, err := c.o.Vault.Credential(ctx, tenant, &runtime.Auth{Type: runtime.AuthBearer, Ref: name})
	if err != nil || !cred.Found() || !IsGrant(cred.Value) {
		return Nothing, err
	}
	at := place{tenant, name}
	g, err := c.grant(at, cred)
	if err != nil {
		return Nothing, err
	}
	if held := c.held(ctx, at, cred.Value); held != nil {
		g = held
	}
	if g.Over != "" {
		return Nothing, nil
	}
	return c.giveBack(ctx, at, g)
}

// Return gives a grant back that a sign-in got and that was not stored, unless one of the same
// client is: a provider may end all that this client has of a person.
func (c *Connector) Return(ctx context.Context, tenant runtime.Tenant, name string, grant runtime.Secret) (Returned, error) {
	ctx, cancel := context.WithTimeout(ctx, giving)
	defer cancel()
	g, err := open(grant)
	if err != nil {
		return Nothing, nil
	}
	cred, err := c.o.Vault.Credential(ctx, tenant, &runtime.Auth{Type: runtime.AuthBearer, Ref: name})
	if err != nil {
		return g.left(c.o.Clock()), err
	}
	if IsGrant(cred.Value) {
		if have, err := open(cred.Value); err != nil || have.Over == "" && have.ClientID == g.ClientID && have.TokenURL == g.TokenURL {
			return g.left(c.o.Clock()), nil
		}
	}
	return c.giveBack(ctx, place{tenant, name}, g)
}

// giveBack tells the provider, and records before that it does so, and behind it that it could not.
func (c *Connector) giveBack(ctx context.Context, at place, g *Grant) (Returned, error) {
	left := g.left(c.o.Clock())
	if g.RevokeURL == "" {
		return left, nil
	}
	if err := c.o.Note(ctx, at.tenant, EventRevoke, at.name, ""); err != nil {
		return left, err
	}
	if err := c.give(ctx, g); err != nil {
		_ = c.o.Note(context.WithoutCancel(ctx), at.tenant, EventRevoke, at.name, "failed")
		return left, fmt.Errorf("the provider did not take a grant back: %w", err)
	}
	return Given, nil
}

// left is what a grant is that is not given back. With a client's own no person has granted anything:
// nothing is left but the access token, until its end.
func (g *Grant) left(now time.Time) Returned {
	switch {
	case !g.ofClient():
		return Alive
	case !g.Expires.IsZero() && !now.Before(g.Expires):
		return Nothing
	}
	return Lasting
}

// give tells the provider of a grant that it is not wanted any more.
func (c *Connector) give(ctx context.Context, g *Grant) error {
	token := g.RefreshToken
	if token == "" {
		token = g.AccessToken
	}
	form := url.Values{"token": {token}, "client_id": {g.ClientID}}
	if g.ClientSecret != "" && g.ClientAuth != "basic" {
		form.Set("client_secret", g.ClientSecret)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.RevokeURL, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if g.ClientSecret != "" && g.ClientAuth == "basic" {
		r.SetBasicAuth(url.QueryEscape(g.ClientID), url.QueryEscape(g.ClientSecret))
	}
	answer, err := c.o.Client.Do(r)
	if err != nil {
		return &unreadable{ofReturns, err}
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusNoContent {
		return &refusal{by: ofReturns, status: answer.StatusCode}
	}
	return nil
}
