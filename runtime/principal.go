package runtime

import (
	"slices"
	"time"
)

// Tenant separates vault, policy, tokens, approvals and audit. It comes only
// from the token; without one it is [DefaultTenant].
type Tenant string

// DefaultTenant is the tenant of everyone who shows no token.
const DefaultTenant Tenant = "default"

// Kind says what a [Principal] is.
type Kind string

// The kinds. The zero Kind is nobody.
const (
	KindOperator Kind = "operator" // the owner at a terminal; may decide approvals
	KindAgent    Kind = "agent"    // a program; may never decide
)

// Principal is who a request acts for. The zero Principal may do nothing.
type Principal struct {
	ID      string // stable, unique in its tenant: "local:1000", "token:t_…"
	Kind    Kind
	Tenant  Tenant
	Agent   string // the name that policy rules match: "local", "claude"
	Roles   []string
	Groups  []string
	Scopes  []Scope // actions it may use at all; empty means none
	TokenID string  // empty without a token
	Run     string  // the `kimbap run` it belongs to, if any
	Expires time.Time
}

// The roles by which a token is taken for an operator, by the API and nowhere
// else: an action is an agent's request whoever shows the token.
const (
	RoleOperator = "kimbap.operator" // decides approvals, makes and revokes tokens, reads the trail, the policy and names of secrets
	RoleAdmin    = "kimbap.admin"    // that, and writes secrets and the policy
)

// May reports whether a token has a role of the API. An admin is an operator too.
func (p *Principal) May(role string) bool {
	return p.TokenID != "" && (slices.Contains(p.Roles, role) || role == RoleOperator && slices.Contains(p.Roles, RoleAdmin))
}

// Owner names the principal in counts of what there is once for all of them: whose share
// something is of. It is the tenant and the id, and never a token's.
func (p *Principal) Owner() string { return string(p.Tenant) + "/" + p.ID }

// Permits reports whether the principal's scopes cover the action.
func (p *Principal) Permits(action Ref) bool {
	return slices.ContainsFunc(p.Scopes, func(scope Scope) bool { return scope.Match(string(action)) })
}

// Beyond is the verdict on an action that the principal's scopes do not cover; nil where they
// do, and policy is asked.
func (p *Principal) Beyond(action Ref) *Verdict {
	if p.Permits(action) {
		return nil
	}
	return &Verdict{Effect: EffectDeny, Rule: RuleScope, Reason: "the token's scopes do not cover this action"}
}

// Peer is what the kernel says of the process at the other end of a connection.
// The zero Peer is a foreign one.
type Peer struct {
	Owner   bool // it runs under our own uid
	UID     int  // valid only when Known
	Known   bool
	Unasked bool // the kernel could not be asked, as without a descriptor: whose it is nobody knows
}

// TokenPrefix begins every token of kimbap.
const TokenPrefix = "kmb_"

// Caller is how a request shows who it is: by token, by peer, or not at all.
type Caller struct {
	Token        Secret // empty: none shown
	Peer         Peer
	Source       string // address that it comes from, without a port; "": none that is known
	RequireToken bool   // the entrance demands a token whoever the peer is
	Via          *Via   // a kimbap elsewhere that forwards for its programs; nil: nobody does
}

// IsOwner reports whether the caller is let in as the owner: by the uid alone, where no token is
// shown and none is demanded. Whoever shows a token is what the token says and no more, also
// from a process of the owner.
func (c *Caller) IsOwner() bool { return c.Token.Empty() && c.Peer.Owner && !c.RequireToken }

// Via is what a kimbap elsewhere, which has identified itself, says of the program
// that it forwards for. It allows nothing that the token does not.
type Via struct {
	Run        string // names the run among those of its token, for counting; "": it is not counted
	Address    string // host:port where its program reaches the proxy
	Unattended bool   // nobody can be asked: what needs approval is refused at once
}
