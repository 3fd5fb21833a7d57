package remote

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// RunToken has a token made for a run under an agent's name, no wider than this
// client's, and returns its id, itself and how long it is good.
func (c *Client) RunToken(ctx context.Context, agent string) (id string, token runtime.Secret, ttl time.Duration, err error) {
	var made struct{ ID, Token, TTL string }
	if err = c.soon(ctx, http.MethodPost, "/v1/proxy/tokens", map[string]string{"agent": agent}, &made); err != nil {
		return "", runtime.Secret{}, 0, err
	}
	ttl, err = time.ParseDuration(made.TTL)
	if err != nil || made.ID == "" || made.Token == "" {
		return "", runtime.Secret{}, 0, c.strange()
	}
	return made.ID, runtime.NewSecret(made.Token), ttl, nil
}

// Prolong has the token of a run that goes on made good for longer, and returns for
// how long; not ok when it is none of this client's any more.
func (c *Client) Prolong(ctx context.Context, id string) (ttl time.Duration, ok bool, err error) {
	var said struct{ TTL string }
	err = c.soon(ctx, http.MethodPost, "/v1/proxy/tokens/"+url.PathEscape(id)+":prolong", nil, &said)
	if err != nil {
		if runtime.AsError(err).Reason == runtime.ReasonNotFound {
			err = nil
		}
		return 0, false, err
	}
	if ttl, err = time.ParseDuration(said.TTL); err != nil {
		err = c.strange()
	}
	return ttl, err == nil, err
}

// Revoke ends a token.
func (c *Client) Revoke(ctx context.Context, id string) error {
	return c.soon(ctx, http.MethodDelete, "/v1/tokens/"+url.PathEscape(id), nil, nil)
}

// As is a client of the same server that shows another token. Its connections are
// closed with this one's.
func (c *Client) As(token runtime.Secret) *Client {
	other := *c
	other.token = token
	return &other
}
