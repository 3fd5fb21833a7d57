package app

import (
	"context"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/lease"
	"github.com/kimbap-run/kimbap/runtime"
)

// MadeForRun is a token that a server made for one run, and how long it is good.
type MadeForRun struct {
	ID    string `json:"id"`
	Token string `json:"token"` // this once
	TTL   string `json:"ttl"`
}

// RunToken implements [server.Operator]. The token is its maker's under another name,
// less the roles of the API: what a program asks for is an agent's, whoever starts it.
func (s apiOperator) RunToken(ctx context.Context, who runtime.Principal, agent string) (any, error) {
	seat, err := s.a.seat(who)
	if err != nil {
		return nil, err
	}
	g := TokenGrant{Agent: agent, Run: runtime.NewID("run", s.a.o.Clock()), Groups: who.Groups, TTL: lease.TTL}
	for _, scope := range who.Scopes {
		g.Scopes = append(g.Scopes, string(scope))
	}
	for _, role := range who.Roles {
		if !strings.HasPrefix(role, "kimbap.") {
			g.Roles = append(g.Roles, role)
		}
	}
	if left := who.Expires.Sub(s.a.o.Clock()) - time.Second; left < g.TTL { // it is some time until it is made
		g.TTL = left
	}
	secret, made, err := seat.CreateToken(ctx, g)
	if err != nil {
		return nil, err
	}
	return MadeForRun{made.ID, secret.Reveal(), g.TTL.String()}, nil
}

// Prolong implements [server.Operator].
func (s apiOperator) Prolong(ctx context.Context, who runtime.Principal, id string) (time.Duration, error) {
	seat, err := s.a.seat(who)
	if err != nil {
		return 0, err
	}
	left, ok, err := seat.ProlongToken(ctx, id, lease.TTL)
	if err == nil && !ok {
		err = unknownID("token of a run", id)
	}
	return left, err
}
