package connector

import (
	"context"
	"errors"
	"net/url"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/kimbap-run/kimbap/runtime"
)

// BeginAsClient starts what no person takes part in: the client itself is given tokens for its
// secret (RFC 6749 section 4.4). Parameters of the service file go with each question for one.
func (c *Connector) BeginAsClient(at *runtime.OAuth, who Client, scopes []string) *SignIn {
	s := c.start(at, who, scopes)
	s.grant.Type = runtime.GrantClientCredentials
	for _, f := range at.Params {
		if f.Name == "resource" { // which every grant names
			continue
		}
		if s.grant.Params == nil {
			s.grant.Params = map[string]string{}
		}
		s.grant.Params[f.Name] = f.Text
	}
	return s
}

// Ask has the provider give the first token. One that is given while ctx ends is lost, and no
// loss: the secret gets another.
func (s *SignIn) Ask(ctx context.Context) (*Grant, error) {
	g, err := s.c.exchange(s.c.with(ctx, &s.grant), &s.grant)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, s.notSignedIn(err)
	}
	for _, part := range g.secrets() {
		s.c.o.Keeper.Hide(part)
	}
	return g, nil
}

// ofClient reports whether a grant is of the client itself, with no person.
func (g *Grant) ofClient() bool { return g.Type == runtime.GrantClientCredentials }

// renews reports whether there is something to get another access token with.
func (g *Grant) renews() bool { return g.RefreshToken != "" || g.ofClient() }

// asClient gets a token for the client itself. No refusal is the end of the grant, as the secret
// is not used up: who is at fault may be mended at the provider. A refresh token should not come
// (section 4.4.3), and is left.
func asClient(asking context.Context, g *Grant) (*oauth2.Token, error) {
	further := url.Values{}
	for name, text := range g.Params {
		further.Set(name, text)
	}
	t, err := question(config(g), further).Token(asking)
	var said *oauth2.RetrieveError
	if errors.As(err, &said) {
		return nil, refusalOf(said.Response, said.ErrorCode)
	}
	if err != nil {
		return nil, err
	}
	t.RefreshToken = ""
	return t, nil
}

// question is one of a client for a token, with parameters that may name another kind of grant.
func question(how *oauth2.Config, further url.Values) *clientcredentials.Config {
	return &clientcredentials.Config{
		ClientID: how.ClientID, ClientSecret: how.ClientSecret, TokenURL: how.Endpoint.TokenURL, AuthStyle: how.Endpoint.AuthStyle,
		Scopes: how.Scopes, EndpointParams: further,
	}
}
