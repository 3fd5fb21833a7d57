package identity

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Grant is what a new token may do. No scopes means that it may do nothing.
type Grant struct {
	Tenant runtime.Tenant
	Agent  string // the name that policy rules match
	Run    string // the `kimbap run` it is made for, "" otherwise
	Scopes []runtime.Scope
	Roles  []string
	TTL    time.Duration // over 0, at most Options.MaxTTL
}

// Mint makes a token and returns it, the only time that its value is known,
// with what was stored of it. Only an operator may, and never a wider one than
// the operator: CodeForbidden with ReasonNotOperator or ReasonScope. Impossible
// grants are CodeInvalidInput.
func (i *Identity) Mint(ctx context.Context, creator runtime.Principal, g Grant) (runtime.Secret, Token, error) {
	if err := operates(&creator, g.Tenant); err != nil {
		return runtime.Secret{}, Token{}, err
	}
	if err := i.check(&g); err != nil {
		return runtime.Secret{}, Token{}, err
	}
	now := i.now().UTC().Truncate(time.Microsecond) // as precise as every store
	t := Token{
		ID: runtime.NewID("tok", now), Tenant: g.Tenant, Agent: g.Agent, Run: g.Run,
		Scopes: slices.Clone(g.Scopes), Roles: slices.Clone(g.Roles), Creator: creator.ID,
		Created: now, Expires: now.Add(g.TTL),
	}
	if err := within(&creator, &t); err != nil {
		return runtime.Secret{}, Token{}, err
	}
	value := newToken()
	t.Hash = sha256.Sum256([]byte(value))
	if err := i.o.Store.AddToken(ctx, t); err != nil {
		return runtime.Secret{}, Token{}, err
	}
	return runtime.NewSecret(value), t, nil
}

// List returns a tenant's tokens, newest first, expired and revoked ones included.
func (i *Identity) List(ctx context.Context, tenant runtime.Tenant) ([]Token, error) {
	return i.o.Store.Tokens(ctx, tenant)
}

// Revoke ends a token of the tenant for ever; false when there was none of that
// id that was not yet revoked. In this process it has effect at once, in others
// with their next Forget.
func (i *Identity) Revoke(ctx context.Context, tenant runtime.Tenant, id string) (bool, error) {
	defer i.Forget()
	return i.o.Store.RevokeToken(ctx, tenant, id, i.now().UTC())
}

// operates refuses a creator who is not an operator of the tenant. The machine's
// owner operates the default tenant and with it all others.
func operates(creator *runtime.Principal, tenant runtime.Tenant) error {
	switch {
	case creator.Kind != runtime.KindOperator || creator.ID == "":
		return forbidden(runtime.ReasonNotOperator, "only an operator can make tokens, and an agent is not one")
	case creator.Tenant != runtime.DefaultTenant && creator.Tenant != tenant:
		return forbidden(runtime.ReasonNotOperator, "this operator makes tokens of another tenant")
	}
	return nil
}

// check refuses grants that nobody may give.
func (i *Identity) check(g *Grant) error {
	switch {
	case g.TTL <= 0:
		return invalid("--ttl 1h", "a token's life must be longer than %s", max(g.TTL, 0))
	case g.TTL > i.o.MaxTTL:
		return invalid("--ttl "+i.o.MaxTTL.String(), "a token lives at most %s, not %s", i.o.MaxTTL, g.TTL)
	case !name(string(g.Tenant)):
		return invalid("use letters, digits, dots and dashes", "%.80q cannot be a tenant", g.Tenant)
	case !name(g.Agent):
		return invalid("--agent claude", "%.80q cannot be the name of an agent", g.Agent)
	case g.Run != "" && !name(g.Run):
		return invalid("use letters, digits, dots and dashes", "%.80q cannot be the name of a run", g.Run)
	}
	for _, role := range g.Roles {
		if !name(role) {
			return invalid("--role developer", "%.80q cannot be a role", role)
		}
	}
	for _, scope := range g.Scopes {
		if text := strings.ReplaceAll(string(scope), "*", ""); scope == "" || text != "" && !name(text) {
			return invalid("--scope 'github.list-*'", "%.80q is not a pattern of actions", scope)
		}
	}
	return nil
}

// within refuses a token that could do more, or for longer, than its creator.
func within(creator *runtime.Principal, t *Token) error {
	for _, scope := range t.Scopes {
		if !covered(creator.Scopes, scope) {
			return forbidden(runtime.ReasonScope, fmt.Sprintf("the scope %q is wider than what the creator may do", scope))
		}
	}
	for _, role := range t.Roles {
		// The owner at the terminal writes the policy that gives roles their meaning.
		if creator.TokenID != "" && !slices.Contains(creator.Roles, role) {
			return forbidden(runtime.ReasonScope, fmt.Sprintf("the creator does not have the role %q", role))
		}
	}
	if !creator.Expires.IsZero() && t.Expires.After(creator.Expires) {
		return forbidden(runtime.ReasonScope, "the token would outlive its creator")
	}
	return nil
}

// covered reports whether one of the scopes matches every action that the new
// scope matches. A "*" of the new scope stands for any text, so only a "*" may
// stand against it; as a pattern has no other way to match the character "*",
// matching the scope as if it were text answers the question. It is on the safe
// side: a scope that only several together cover is not covered.
func covered(by []runtime.Scope, scope runtime.Scope) bool {
	return slices.ContainsFunc(by, func(s runtime.Scope) bool { return s.Match(string(scope)) })
}

// name keeps names to what policy patterns, logs and headers carry unchanged.
func name(s string) bool {
	const marks = "-_.:@/"
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune(marks, r)
	})
}

func forbidden(reason runtime.Reason, msg string) error {
	return &runtime.Error{
		Code: runtime.CodeForbidden, Reason: reason, Stage: runtime.StageIdentify, Msg: msg,
		Hint: "an operator does this on the machine itself: kimbap token create",
	}
}

func invalid(hint, format string, a ...any) error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Stage: runtime.StageIdentify, Msg: fmt.Sprintf(format, a...), Hint: hint}
}
