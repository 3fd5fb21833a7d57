package identity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Grant is what a new token may do, for whom and for how long.
type Grant struct {
	Tenant runtime.Tenant
	Agent  string // the name that policy rules match
	Run    string // the `kimbap run` it belongs to, "" otherwise
	Scopes []runtime.Scope
	Roles  []string
	Groups []string
	TTL    time.Duration
}

// Mint makes a token and stores its hash. The value is returned this once. Only
// an operator may, for its own tenant, and not beyond its own scopes.
func (i *Identity) Mint(ctx context.Context, creator runtime.Principal, g Grant) (runtime.Secret, Token, error) {
	if err := i.mayMint(&creator, &g); err != nil {
		return runtime.Secret{}, Token{}, err
	}
	secret, now := newToken(), i.now().UTC().Truncate(time.Microsecond) // as exact as stores are
	t := Token{
		ID: runtime.NewID("tok", now), Hash: hashOf(secret), Tenant: g.Tenant, Agent: g.Agent, Run: g.Run,
		Scopes: slices.Clone(g.Scopes), Roles: slices.Clone(g.Roles), Groups: slices.Clone(g.Groups), Creator: creator.ID, Created: now, Expires: now.Add(g.TTL),
	}
	if err := i.o.Store.AddToken(ctx, t); err != nil {
		return runtime.Secret{}, Token{}, err
	}
	if err := i.stillGood(ctx, &creator, &t); err != nil {
		return runtime.Secret{}, Token{}, err
	}
	return secret, t, nil
}

// stillGood takes a token back whose maker, itself one, was revoked meanwhile, by another
// process too. It looks when the token is there: who revokes the maker afterwards finds it.
func (i *Identity) stillGood(ctx context.Context, creator *runtime.Principal, made *Token) error {
	if creator.TokenID == "" {
		return nil
	}
	all, err := i.o.Store.Tokens(ctx, made.Tenant)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(t Token) bool { return t.ID == creator.TokenID && !t.Revoked.IsZero() })
	if at < 0 {
		return nil
	}
	if _, err := i.o.Store.RevokeToken(ctx, made.Tenant, made.ID, i.now().UTC()); err != nil {
		return err
	}
	i.Forget()
	return revoked(&all[at])
}

func (i *Identity) mayMint(creator *runtime.Principal, g *Grant) error {
	switch {
	case creator.Kind != runtime.KindOperator:
		return &runtime.Error{
			Code: runtime.CodeForbidden, Reason: runtime.ReasonNotOperator, Stage: runtime.StageIdentify,
			Msg: "only the owner makes tokens: an agent cannot",
		}
	case g.Tenant == "" || g.Tenant != creator.Tenant:
		return invalid("a token is for the tenant of the one who makes it", "", "")
	case !isName(g.Agent):
		return invalid("a token needs the name of an agent: letters, digits and ._-, 64 at most", "--agent ci", `"agent": "ci"`)
	case slices.ContainsFunc(g.Roles, func(role string) bool { return !isName(role) }):
		return invalid("a role is a name: letters, digits and ._-, 64 at most", "--role developer", `"roles": ["developer"]`)
	case slices.ContainsFunc(g.Roles, noRoleOfTheAPI):
		return invalid("a role that begins with kimbap. is one of the API: kimbap.operator or kimbap.admin", "--role kimbap.operator", `"roles": ["kimbap.operator"]`)
	case slices.ContainsFunc(g.Groups, func(group string) bool { return !isName(group) }):
		return invalid("a group is a name: letters, digits and ._-, 64 at most", "--group leads", `"groups": ["leads"]`)
	case len(g.Scopes) == 0:
		return invalid("a token without a scope could do nothing", "--scope 'github.list-*'", `"scopes": ["github.list-*"]`)
	case g.TTL <= 0 || g.TTL > i.o.MaxTTL:
		return invalid(fmt.Sprintf("a token is valid for more than 0 and at most %s, not for %s", lasting(i.o.MaxTTL), lasting(g.TTL)), "--ttl 1h", `"ttl": "1h"`)
	}
	if creator.TokenID != "" {
		if err := i.narrower(creator, g); err != nil {
			return err
		}
	}
	for _, scope := range g.Scopes {
		if !isName(strings.ReplaceAll(string(scope), "*", "a")) || strings.HasPrefix(string(scope), "-") { // a flag, taken for the value of --scope
			return invalid(fmt.Sprintf("%q is not a scope: a scope is an action's name in which * stands for any characters", scope), "--scope 'github.list-*'", `"scopes": ["github.list-*"]`)
		}
		if !covers(creator.Scopes, scope) {
			return &runtime.Error{
				Code: runtime.CodeForbidden, Reason: runtime.ReasonScope, Stage: runtime.StageIdentify,
				Msg: fmt.Sprintf("the scope %q is wider than those of its maker", scope),
			}
		}
	}
	return nil
}

// noRoleOfTheAPI reports whether a role looks like one of the API and is none.
func noRoleOfTheAPI(role string) bool {
	return strings.HasPrefix(role, "kimbap.") && role != runtime.RoleOperator && role != runtime.RoleAdmin
}

// Prolong gives the token of a run that goes on another ttl, also when it has expired
// meanwhile: a machine may have slept. Only who made it can, which could as well make
// another. It never outlives a maker that is a token itself. What is left of its life
// is returned; not ok when there is no such token, or it was revoked.
func (i *Identity) Prolong(ctx context.Context, maker runtime.Principal, id string, ttl time.Duration) (left time.Duration, ok bool, err error) {
	if maker.Kind != runtime.KindOperator || ttl <= 0 || ttl > i.o.MaxTTL {
		return 0, false, invalid("the life of a token is prolonged by an operator, and not without end", "", "")
	}
	all, err := i.o.Store.Tokens(ctx, maker.Tenant)
	if err != nil {
		return 0, false, err
	}
	at := slices.IndexFunc(all, func(t Token) bool { return t.ID == id && t.Run != "" && t.Creator == maker.ID })
	if at < 0 {
		return 0, false, nil
	}
	now := i.now().UTC()
	until := now.Add(ttl)
	if maker.TokenID != "" && until.After(maker.Expires) {
		until = maker.Expires
	}
	ok, err = i.o.Store.ProlongToken(ctx, maker.Tenant, id, until)
	i.Forget()
	return until.Sub(now), ok, err
}

// AsOperator is the operator that a token with a role of the API is taken for, in
// its own tenant and within its own scopes.
func AsOperator(p runtime.Principal) (runtime.Principal, error) {
	if !p.May(runtime.RoleOperator) {
		return runtime.Principal{}, &runtime.Error{
			Code: runtime.CodeForbidden, Reason: runtime.ReasonNotOperator, Stage: runtime.StageIdentify,
			Msg: "the token has no role of an operator",
		}
	}
	p.Kind = runtime.KindOperator
	return p, nil
}

// narrower refuses what would make more of a token than the one that makes it is:
// another role or group, any role of the API, or a longer life.
func (i *Identity) narrower(creator *runtime.Principal, g *Grant) error {
	wider := func(what string) error {
		return &runtime.Error{
			Code: runtime.CodeForbidden, Reason: runtime.ReasonScope, Stage: runtime.StageIdentify,
			Msg: what + " is more than its maker, itself a token, may give", Hint: "the owner makes such a token with: kimbap token create",
		}
	}
	for _, role := range g.Roles {
		if strings.HasPrefix(role, "kimbap.") || !slices.Contains(creator.Roles, role) {
			return wider(fmt.Sprintf("the role %q", role))
		}
	}
	for _, group := range g.Groups {
		if !slices.Contains(creator.Groups, group) {
			return wider(fmt.Sprintf("the group %q", group))
		}
	}
	if i.now().Add(g.TTL).After(creator.Expires) {
		return wider("a life of " + runtime.Span(g.TTL))
	}
	return nil
}

// isName keeps what stands in rules, records and tables to characters that mean
// nothing there: a name with "*" would read as a pattern.
func isName(text string) bool {
	if text == "" || len(text) > 64 {
		return false
	}
	return strings.IndexFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
	}) < 0
}

// covers reports whether one of the scopes includes all that the new one does.
// Taking the new pattern as plain text is sound: a "*" in it can only have been
// absorbed by a "*" of ours, which absorbs whatever it stands for.
func covers(scopes []runtime.Scope, wanted runtime.Scope) bool {
	return slices.ContainsFunc(scopes, func(s runtime.Scope) bool { return s.Match(string(wanted)) })
}

func invalid(msg, hint, ask string) error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Stage: runtime.StageIdentify, Msg: msg, Hint: hint, Ask: ask}
}

// List returns a tenant's tokens, newest first, expired and revoked ones too.
func (i *Identity) List(ctx context.Context, tenant runtime.Tenant) ([]Token, error) {
	return i.o.Store.Tokens(ctx, tenant)
}

// Runs returns the tokens of runs that are not revoked, of all tenants, expired ones too.
func (i *Identity) Runs(ctx context.Context) ([]Token, error) { return i.o.Store.RunTokens(ctx) }

// Revoke ends a token, and those of runs that it has made, which are its own under other
// names; false when there was none to end. In this process it counts at once, in others when
// their cache is dropped.
func (i *Identity) Revoke(ctx context.Context, tenant runtime.Tenant, id string) (bool, error) {
	revoked, err := i.o.Store.RevokeToken(ctx, tenant, id, i.now().UTC())
	i.Forget()
	if err != nil {
		return false, err
	}
	all, err := i.o.Store.Tokens(ctx, tenant) // also when it was revoked already, by who did not come this far
	maker := Token{ID: id}
	for _, t := range all {
		if err == nil && t.Run != "" && t.Creator == maker.Principal() && t.Revoked.IsZero() {
			more, failed := i.o.Store.RevokeToken(ctx, tenant, t.ID, i.now().UTC())
			revoked, err = revoked || more, failed
		}
	}
	i.Forget()
	return revoked, err
}

// lasting is a length of time as people count it: whole days as days.
func lasting(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return runtime.Span(d)
}
