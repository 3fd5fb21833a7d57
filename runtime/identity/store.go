package identity

import (
	"context"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Store keeps tokens by the SHA-256 of their value, never the value. It is
// safe for concurrent use, also by several processes.
type Store interface {
	// AddToken stores a token, and forgets those of its tenant that had expired [EndedKept]
	// before it was made: each `kimbap run` makes one.
	AddToken(ctx context.Context, t Token) error
	// TokenByHash returns the token; false when there is none.
	TokenByHash(ctx context.Context, hash [32]byte) (Token, bool, error)
	// Tokens lists a tenant's tokens, newest first, expired and revoked ones included.
	Tokens(ctx context.Context, tenant runtime.Tenant) ([]Token, error)
	// RunTokens lists the tokens of runs that are not revoked, of all tenants, expired ones included.
	RunTokens(ctx context.Context) ([]Token, error)
	// ProlongToken moves the end of a token; false when the tenant has none of that
	// id, or it was revoked.
	ProlongToken(ctx context.Context, tenant runtime.Tenant, id string, until time.Time) (bool, error)
	// RevokeToken reports whether the tenant had such a token that was not yet revoked.
	RevokeToken(ctx context.Context, tenant runtime.Tenant, id string, at time.Time) (bool, error)
}

// EndedKept is how long a token that has expired is still listed. The trail has what was
// done with it.
const EndedKept = 90 * 24 * time.Hour

// Principal is the id of whoever shows the token.
func (t *Token) Principal() string { return "token:" + t.ID }

// Token is what is stored of a token.
type Token struct {
	ID      string // "tok_…", safe to show
	Hash    [32]byte
	Tenant  runtime.Tenant
	Agent   string
	Run     string // the `kimbap run` it was made for, "" otherwise
	Scopes  []runtime.Scope
	Roles   []string
	Groups  []string
	Creator string // principal id
	Created time.Time
	Expires time.Time
	Revoked time.Time // zero: not revoked
}

// What [Token.State] says.
const (
	stateValid   = "valid"
	stateRevoked = "revoked"
	stateExpired = "expired"
)

// State is how the token stands at a time. What was revoked stays so when it expires.
func (t *Token) State(now time.Time) string {
	switch {
	case !t.Revoked.IsZero():
		return stateRevoked
	case !now.Before(t.Expires):
		return stateExpired
	}
	return stateValid
}

// Valid reports whether the token is neither revoked nor expired.
func (t *Token) Valid(now time.Time) bool { return t.State(now) == stateValid }
