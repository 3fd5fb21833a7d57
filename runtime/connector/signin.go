package connector

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/oauth2"

	"github.com/kimbap-run/kimbap/runtime"
)

// Client is who we are at a provider: an OAuth client that the user has registered there.
type Client struct {
	ID     string
	Secret runtime.Secret // empty: a public client
}

// SignIn is one that is under way: a person agrees in a browser, or on another device. Of a client
// itself it is the question for its first token.
type SignIn struct {
	URL  string // that the person opens
	Code string // that the person types there; "" in a browser

	c        *Connector
	grant    Grant
	state    string
	issuer   string
	verifier string
	redirect string
	device   *oauth2.DeviceAuthResponse
	failures int // of the provider, while a person is on the other device
	config   *oauth2.Config
	used     atomic.Bool // a browser may come twice at once
}

// start is what all kinds of sign-in have.
func (c *Connector) start(at *runtime.OAuth, who Client, scopes []string) *SignIn {
	s := &SignIn{c: c, grant: Grant{
		TokenURL: at.TokenURL, RevokeURL: at.RevokeURL, ClientID: who.ID, ClientSecret: who.Secret.Reveal(), ClientAuth: at.ClientAuth, Scopes: scopes,
	}}
	for _, f := range at.Params {
		if f.Name == "resource" {
			s.grant.Resource = f.Text
		}
	}
	for _, part := range s.grant.secrets() {
		c.o.Keeper.Hide(part)
	}
	s.config = config(&s.grant)
	s.config.Endpoint.AuthURL, s.config.Endpoint.DeviceAuthURL = at.AuthorizeURL, at.DeviceURL
	return s
}

// Begin starts a sign-in in a browser, which comes back to redirect.
func (c *Connector) Begin(at *runtime.OAuth, who Client, scopes []string, redirect string) *SignIn {
	s := c.start(at, who, scopes)
	var state [32]byte
	_, _ = rand.Read(state[:]) // never fails since Go 1.24
	s.state, s.verifier, s.redirect = base64.RawURLEncoding.EncodeToString(state[:]), oauth2.GenerateVerifier(), redirect
	s.config.RedirectURL, s.issuer = redirect, at.Issuer
	s.URL = s.config.AuthCodeURL(s.state, append(further(at), oauth2.S256ChallengeOption(s.verifier))...)
	return s
}

// further are the parameters that a service file has for the beginning of a sign-in.
func further(at *runtime.OAuth) (out []oauth2.AuthCodeOption) {
	for _, f := range at.Params {
		out = append(out, oauth2.SetAuthURLParam(f.Name, f.Text))
	}
	return out
}

// Finish takes what the browser came back with, once, and returns the grant. An answer that
// is not of this sign-in leaves it as it was. The provider is heard to the end, also if ctx ends.
func (s *SignIn) Finish(ctx context.Context, q url.Values) (*Grant, error) {
	if len(q["state"]) != 1 || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(s.state)) != 1 {
		return nil, ErrForeign
	}
	if !s.used.CompareAndSwap(false, true) {
		return nil, ErrForeign
	}
	if s.issuer != "" && (len(q["iss"]) != 1 || q.Get("iss") != s.issuer) {
		return nil, otherIssuer()
	}
	if q.Has("error") || len(q["code"]) != 1 || q.Get("code") == "" {
		return nil, notGranted(q.Get("error"))
	}
	t, err := s.config.Exchange(s.c.heard(ctx, &s.grant), q.Get("code"), oauth2.VerifierOption(s.verifier))
	return s.take(t, err)
}

// otherIssuer refuses an answer that is not said to be of the provider that was asked: its code
// may be of another one, which was made to send it here (RFC 9207 section 2.4).
func otherIssuer() error {
	return &runtime.Error{
		Code: runtime.CodeForbidden, Reason: runtime.ReasonNotGranted, Stage: runtime.StageCredential,
		Msg:  "the answer to the sign-in does not name the issuer that the service file names",
		Hint: "start again; if it comes back, the provider sends no iss (RFC 9207), or another: take issuer out of the service file, or correct it",
	}
}

// ofIdentity are scopes that many providers take and do not name among those that they grant (OpenID
// Connect Core sections 5.4 and 11).
var ofIdentity = []string{"openid", "offline_access", "profile", "email", "address", "phone"}

// Withheld are the scopes that a sign-in asked for and its grant does not name: a person may agree
// to some of them only, and a provider may not know one.
func (s *SignIn) Withheld(g *Grant) (out []string) {
	given := g.Scopes
	if g.named != nil {
		given = g.named
	}
	for _, scope := range s.config.Scopes {
		if !slices.Contains(given, scope) && !slices.Contains(ofIdentity, scope) {
			out = append(out, scope)
		}
	}
	return out
}

// ErrForeign is of a callback that no sign-in of ours is waiting for.
var ErrForeign = errors.New("the callback is not of the sign-in that is under way")

func (s *SignIn) take(t *oauth2.Token, err error) (*Grant, error) {
	var refused *refusal
	if err != nil {
		if err = told("", err); errors.As(err, &refused) && slices.Contains([]string{"access_denied", "expired_token"}, refused.code) {
			return nil, notGranted(refused.code)
		}
		if errors.Is(err, errOver) {
			err = errCode
		}
		return nil, s.notSignedIn(err)
	}
	if err := s.grant.take(t, s.c.o.Clock()); err != nil {
		return nil, s.notSignedIn(err)
	}
	for _, part := range s.grant.secrets() {
		s.c.o.Keeper.Hide(part)
	}
	return &s.grant, nil
}

// Renewed is a grant for a refresh token that was got elsewhere. The provider is heard to the
// end, also if ctx ends: it may take each refresh token once.
func (c *Connector) Renewed(ctx context.Context, at *runtime.OAuth, who Client, refresh runtime.Secret) (*Grant, error) {
	s := c.start(at, who, at.Scopes)
	s.grant.RefreshToken = refresh.Reveal()
	c.o.Keeper.Hide(refresh)
	g, err := c.exchange(c.heard(ctx, &s.grant), &s.grant)
	if errors.Is(err, errOver) {
		used := notGranted("invalid_grant")
		used.Hint = "this refresh token was used, or taken away: get a new one, or sign in with kimbap link SERVICE --client FILE"
		return nil, used
	}
	if err != nil {
		return nil, s.notSignedIn(err)
	}
	return g, nil
}

// Stored is who a stored grant is of, and what it is for, for the next sign-in at the same
// provider; the zero client where none is stored, or what is stored cannot be read: a sign-in
// is what mends that. A service that names the key of another one and a provider of its own
// gets no client's secret sent there, at the end neither.
func (c *Connector) Stored(ctx context.Context, tenant runtime.Tenant, name string, at *runtime.OAuth) (who Client, scopes []string, err error) {
	cred, err := c.o.Vault.Credential(ctx, tenant, &runtime.Auth{Type: runtime.AuthBearer, Ref: name})
	if err != nil && runtime.AsError(err).Reason == runtime.ReasonReference { // its command fails
		return Client{}, nil, nil
	}
	if err != nil || !cred.Found() || !IsGrant(cred.Value) {
		return Client{}, nil, err
	}
	g, err := c.grant(place{tenant, name}, cred)
	if err != nil || g.TokenURL != at.TokenURL || !returnsTo(g, at) {
		return Client{}, nil, nil
	}
	if g.Type == at.Grant { // what a person grants is not what a client has
		scopes = g.Scopes
	}
	return Client{ID: g.ClientID, Secret: runtime.NewSecret(g.ClientSecret)}, scopes, nil
}

// returnsTo reports whether a grant that a service gets would be given back, with the client's
// secret, to where the stored one is, or to the host that tokens come from.
func returnsTo(g *Grant, at *runtime.OAuth) bool {
	if at.RevokeURL == "" || at.RevokeURL == g.RevokeURL {
		return true
	}
	there, err := url.Parse(at.RevokeURL)
	tokens, terr := url.Parse(at.TokenURL)
	return err == nil && terr == nil && strings.EqualFold(there.Host, tokens.Host)
}

// Over reports whether a stored grant gives no token any more, since its provider has ended it or
// nothing renews it, and whether there is one. That is no use of it.
func (c *Connector) Over(ctx context.Context, tenant runtime.Tenant, name string) (over, found bool, err error) {
	var g *Grant
	var unread error
	_, err = c.o.Keeper.Look(ctx, tenant, name, func(value runtime.Secret) {
		if found = IsGrant(value); found {
			g, unread = open(value)
		}
	})
	if err == nil {
		err = unread
	}
	if err != nil || !found {
		return false, found, err
	}
	end := g.ends()
	return g.Over != "" || !end.IsZero() && !c.o.Clock().Before(end), found, nil
}
