package app

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/draft"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/identity"
)

// TokenInfo is a token without what makes it one, as people and programs see it.
type TokenInfo struct {
	ID      string          `json:"id"`
	Tenant  runtime.Tenant  `json:"tenant"`
	Agent   string          `json:"agent"`
	Run     string          `json:"run,omitempty"`
	Scopes  []runtime.Scope `json:"scopes"`
	Roles   []string        `json:"roles,omitempty"`
	Groups  []string        `json:"groups,omitempty"`
	Creator string          `json:"creator"`
	Created time.Time       `json:"created"`
	Expires time.Time       `json:"expires"`
	Revoked *time.Time      `json:"revoked,omitempty"`
	State   string          `json:"state"` // valid | expired | revoked
}

// Shown is how a token stands now.
func (a *App) Shown(t Token) TokenInfo {
	info := TokenInfo{t.ID, t.Tenant, t.Agent, t.Run, t.Scopes, t.Roles, t.Groups, t.Creator, t.Created, t.Expires, nil, t.State(a.o.Clock())}
	if !t.Revoked.IsZero() {
		info.Revoked = &t.Revoked
	}
	return info
}

// Token is what is stored of a token.
type Token = identity.Token

// TokenGrant is what a new token may do.
type TokenGrant struct {
	Agent                 string
	Run                   string
	Scopes, Roles, Groups []string
	TTL                   time.Duration
}

// CreateToken makes a token in the operator's name.
func (a *App) CreateToken(ctx context.Context, g TokenGrant) (secret runtime.Secret, made identity.Token, err error) {
	scopes := make([]runtime.Scope, len(g.Scopes))
	for i, s := range g.Scopes {
		scopes[i] = runtime.Scope(s)
	}
	fields := map[string]string{"agent": g.Agent, "scopes": strings.Join(g.Scopes, " "), "ttl": runtime.Span(g.TTL)}
	err = a.noted(ctx, "token.create", fields, func() (err error) {
		secret, made, err = a.identity.Mint(ctx, a.Operator(), identity.Grant{
			Tenant: a.tenant, Agent: g.Agent, Run: g.Run, Scopes: scopes, Roles: g.Roles, Groups: g.Groups, TTL: g.TTL,
		})
		return err
	})
	return secret, made, err
}

// IdleScopes says which scopes cover no action of a service that is installed or could be:
// they may be meant for one to come, and are more often misspelled.
func (a *App) IdleScopes(scopes []string) (said []string) {
	all := a.Services().Services()
	for _, scope := range scopes {
		if draft.IdleScope(scope, all) == "" {
			continue
		}
		if known, err := Catalog(); err == nil {
			all = slices.Concat(a.Services().Services(), known)
		}
		if wrong := draft.IdleScope(scope, all); wrong != "" {
			said = append(said, wrong)
		}
	}
	return said
}

// ProlongToken gives the token of a run that goes on another ttl, and returns how much
// it has; false when there is none of that id that the operator made for a run.
func (a *App) ProlongToken(ctx context.Context, id string, ttl time.Duration) (left time.Duration, found bool, err error) {
	if !strings.HasPrefix(id, "tok_") { // as of RevokeToken
		return 0, false, nil
	}
	none := unknownID("token of a run", id) // for the record: it came to nothing
	err = a.noted(ctx, "token.prolong", map[string]string{"token": id, "ttl": ttl.String()}, func() (err error) {
		if left, found, err = a.identity.Prolong(ctx, a.Operator(), id, ttl); err == nil && !found {
			err = none
		}
		return err
	})
	if errors.Is(err, none) {
		err = nil
	}
	return left, found, err
}

// ListTokens lists the tokens of the tenant, the newest first.
func (a *App) ListTokens(ctx context.Context) ([]Token, error) {
	return a.identity.List(ctx, a.tenant)
}

// RevokeToken revokes by id; false when there is no valid token of that id.
func (a *App) RevokeToken(ctx context.Context, id string) (found bool, err error) {
	if !strings.HasPrefix(id, "tok_") { // no token's id, and maybe a token
		return false, nil
	}
	return a.deprivingOf(ctx, "token.revoke", map[string]string{"token": id}, func() (bool, error) {
		return a.identity.Revoke(ctx, a.tenant, id)
	})
}

// RevokeTokens revokes every valid token of the tenant, those of runs too, and
// returns their ids. Those of runs that have expired are among them: a run that slept
// would make its own good again.
func (a *App) RevokeTokens(ctx context.Context) (revoked []string, err error) {
	fields := map[string]string{}
	err = a.depriving(ctx, "token.revoke_all", fields, func() (err error) {
		revoked, err = a.revokeAll(ctx)
		if err != nil && len(revoked) > 0 { // which did not come to nothing
			fields["revoked"] = strconv.Itoa(len(revoked))
		}
		return err
	})
	return revoked, err
}

// revokeAll is RevokeTokens without the record.
func (a *App) revokeAll(ctx context.Context) ([]string, error) {
	revoked := []string{}
	for range 2 { // again: what a token has made before its turn came is in no list of before
		tokens, err := a.identity.List(ctx, a.tenant)
		if err != nil {
			return revoked, err
		}
		now := a.o.Clock()
		for _, t := range tokens {
			if !t.Revoked.IsZero() || t.Run == "" && !now.Before(t.Expires) {
				continue
			}
			ok, err := a.identity.Revoke(ctx, a.tenant, t.ID)
			if err != nil {
				return revoked, err
			}
			if ok {
				revoked = append(revoked, t.ID)
			}
		}
	}
	return revoked, nil
}

// IsToken is [identity.IsToken], for who is asked for the id of one.
func IsToken(text string) bool { return identity.IsToken(text) }

// WithoutTokens is [identity.WithoutTokens], for messages to the caller.
func WithoutTokens(text string) string { return identity.WithoutTokens(text) }
