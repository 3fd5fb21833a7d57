package connector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/oauth2"
)

// endpoint is which one of a provider was asked; "" is the token endpoint.
type endpoint string

// The others.
const (
	ofDevices endpoint = "device endpoint"
	ofReturns endpoint = "revocation endpoint"
)

// String implements [fmt.Stringer].
func (e endpoint) String() string { return cmp.Or(string(e), "token endpoint") }

// refusal is what an endpoint answered instead of what it was asked for: its status and the code
// of RFC 6749 section 5.2. The rest of what it said is nobody's.
type refusal struct {
	by     endpoint
	status int
	code   string
	after  time.Duration // of Retry-After; 0: it has not said
}

// Error implements error.
func (r *refusal) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("the %s answered %d %s", r.by, r.status, r.code), " ")
}

// What a provider says of a grant that it has ended, by RFC 6749 section 5.2 and at GitHub; and
// of a client that it does not know, or not by this secret.
var (
	endCodes    = []string{"invalid_grant", "bad_refresh_token"}
	clientCodes = []string{"invalid_client", "unauthorized_client", "incorrect_client_credentials"}
)

// longestLife is ten years, in seconds: a provider may say anything.
const longestLife = 10 * 365 * 24 * 3600

// How long a token, and the scopes of a grant, may be, so that the vault takes the grant: one
// that it refuses is lost with this process.
const (
	longestToken  = 16 << 10
	longestScopes = 8 << 10
)

// isCode reports whether a text is an error code as RFC 6749 has them: nothing else of what a
// provider or a browser says is repeated.
func isCode(text string) bool {
	return text != "" && len(text) <= 40 && !strings.ContainsFunc(text, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' })
}

// exchange has a grant renewed; asking is made by [Connector.with] or heard. A provider that
// gives no new refresh token leaves the old one in force (RFC 6749 section 6).
func (c *Connector) exchange(asking context.Context, g *Grant) (*Grant, error) {
	asked := c.o.Clock() // its life counts from before the answer
	var t *oauth2.Token
	var err error
	if g.ofClient() {
		t, err = asClient(asking, g)
	} else {
		t, err = config(g).TokenSource(asking, &oauth2.Token{RefreshToken: g.RefreshToken}).Token()
	}
	if err != nil {
		return nil, told("", err)
	}
	next := *g
	return &next, next.take(t, asked)
}

// take puts what a provider gave into a grant.
func (g *Grant) take(t *oauth2.Token, now time.Time) error {
	switch {
	case !strings.EqualFold(t.Type(), "Bearer"):
		return errType
	case !bearer(t.AccessToken):
		return errors.New("the provider gave an access token that cannot stand in a request (RFC 6750 section 2.1)")
	case len(t.RefreshToken) > longestToken || strings.ContainsFunc(t.RefreshToken, func(r rune) bool { return r < ' ' || r > '~' }):
		return errors.New("the provider gave a refresh token that is none (RFC 6749 appendix A.17)")
	}
	switch {
	case g.AccessToken == t.AccessToken:
	case g.Expires.IsZero() || now.Before(g.Expires):
		g.Previous, g.PreviousEnds = g.AccessToken, g.Expires.UTC()
	default:
		g.Previous, g.PreviousEnds = "", time.Time{}
	}
	g.AccessToken, g.Spent, g.Paused = t.AccessToken, false, pause{}
	g.Obtained, g.Expires = now.Round(0).UTC(), time.Time{} // by the wall: a machine may sleep
	if life := lives(t); life != 0 {
		g.Expires = g.Obtained.Add(time.Duration(min(max(life, 1), longestLife)) * time.Second)
	}
	if t.RefreshToken != "" {
		g.RefreshToken = t.RefreshToken
	}
	if said, ok := t.Extra("scope").(string); ok && len(said) <= longestScopes {
		switch scopes := granted(said, g.Scopes); {
		case len(scopes) == 0:
		case g.ofClient():
			g.named = scopes
		default:
			g.Scopes = scopes
		}
	}
	return nil
}

// granted are the scopes that a provider says it has granted. Some part them by commas, which may
// stand in a scope too (RFC 6749 section 3.3): in one that was asked for.
func granted(said string, asked []string) []string {
	commas := slices.ContainsFunc(asked, func(scope string) bool { return strings.Contains(scope, ",") })
	return strings.FieldsFunc(said, func(r rune) bool { return unicode.IsSpace(r) || r == ',' && !commas })
}

// lives is for how many seconds a token is good; 0: the provider has not said. An answer in the
// form of a query says it too, as GitHub's does.
func lives(t *oauth2.Token) int64 {
	if t.ExpiresIn == 0 {
		switch said := t.Extra("expires_in").(type) {
		case int64:
			return said
		case float64: // of JSON, where the client itself has asked
			return int64(min(max(said, -1), longestLife))
		}
	}
	return t.ExpiresIn
}

// bearer reports whether a token is one of RFC 6750: nothing else goes into a field.
func bearer(token string) bool {
	if token == "" || len(token) > longestToken {
		return false
	}
	for i := range len(token) { // by bytes: it is asked for each request
		if b := token[i]; b <= ' ' || b > '~' || b == '"' || b == '\\' || b == ',' || b == ';' {
			return false
		}
	}
	return true
}

// config is how a grant's provider is asked.
func config(g *Grant) *oauth2.Config {
	style := oauth2.AuthStyleInParams
	if g.ClientAuth == "basic" && g.ClientSecret != "" {
		style = oauth2.AuthStyleInHeader
	}
	return &oauth2.Config{ClientID: g.ClientID, ClientSecret: g.ClientSecret, Scopes: g.Scopes, Endpoint: oauth2.Endpoint{TokenURL: g.TokenURL, AuthStyle: style}}
}

// with has the provider of a grant asked by our client.
func (c *Connector) with(ctx context.Context, g *Grant) context.Context {
	return c.through(ctx, plain{naming{c.o.Client.Transport, g.Resource}})
}

// heard is with for what a provider gives once: an answer that was asked for is waited for, as
// long as any is, also if ctx or its time ends meanwhile.
func (c *Connector) heard(ctx context.Context, g *Grant) context.Context {
	return c.with(context.WithoutCancel(ctx), g)
}

// through has the provider asked by our client, by another way than the usual one. No answer is
// waited for longer than a renewal may take.
func (c *Connector) through(ctx context.Context, way http.RoundTripper) context.Context {
	client := *c.o.Client
	client.Transport = way
	if client.Timeout <= 0 || client.Timeout > renewal {
		client.Timeout = renewal
	}
	return context.WithValue(ctx, oauth2.HTTPClient, &client)
}

// closing is a body with whose end something else ends.
type closing struct {
	io.ReadCloser
	also func()
}

// Close implements [io.Closer].
func (c closing) Close() error {
	defer c.also()
	return c.ReadCloser.Close()
}

// told is what an error of a provider means, without its words.
func told(by endpoint, err error) error {
	var refused *refusal
	if errors.As(err, &refused) {
		refused.by = by
		return refused
	}
	var said *oauth2.RetrieveError
	if !errors.As(err, &said) {
		var own interface{ Timeout() bool }
		if errors.As(err, &own) && own.Timeout() {
			return silent{by}
		}
		return &unreadable{by, err}
	}
	r := refusalOf(said.Response, said.ErrorCode)
	r.by = by
	if slices.Contains(endCodes, r.code) && r.status < http.StatusInternalServerError {
		return errOver
	}
	return r
}

// refusalOf is what a provider answered instead of what it was asked for.
func refusalOf(answer *http.Response, code string) *refusal {
	r := &refusal{status: answer.StatusCode}
	if isCode(code) {
		r.code = code
	}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil {
		r.after = time.Duration(min(seconds, int(longestWait.Seconds()))) * time.Second
	}
	return r
}

// silent is of an answer that did not come.
type silent struct{ by endpoint }

// Error implements error.
func (s silent) Error() string { return "the " + s.by.String() + " did not answer in time" }

// Unwrap returns what it is an error of.
func (silent) Unwrap() error { return context.DeadlineExceeded }

// unreadable is an error on the way, or an answer that is none. What it quotes is kept for
// errors.As alone.
type unreadable struct {
	by  endpoint
	err error
}

// Error implements error.
func (u *unreadable) Error() string {
	var way *url.Error
	if errors.As(u.err, &way) {
		return "the " + u.by.String() + " cannot be reached"
	}
	text := "the answer of the " + u.by.String() + " cannot be read"
	if u.by == "" {
		text += ", or holds no token"
	}
	return text
}

// Unwrap returns the cause.
func (u *unreadable) Unwrap() error { return u.err }
