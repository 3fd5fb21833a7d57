package identity_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/identity"
)

// tokens is a Store in memory that counts look-ups.
type tokens struct {
	mu      sync.Mutex
	list    []identity.Token
	lookups int
}

func (s *tokens) AddToken(_ context.Context, t identity.Token) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, t)
	return nil
}

func (s *tokens) TokenByHash(ctx context.Context, hash [32]byte) (identity.Token, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookups++
	if err := ctx.Err(); err != nil {
		return identity.Token{}, false, err
	}
	for _, t := range s.list {
		if t.Hash == hash {
			return t, true, nil
		}
	}
	return identity.Token{}, false, nil
}

func (s *tokens) Tokens(_ context.Context, tenant runtime.Tenant) ([]identity.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.list), func(t identity.Token) bool { return t.Tenant != tenant }), nil
}

func (s *tokens) RunTokens(context.Context) ([]identity.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.list), func(t identity.Token) bool { return t.Run == "" || !t.Revoked.IsZero() }), nil
}

func (s *tokens) ProlongToken(_ context.Context, tenant runtime.Tenant, id string, until time.Time) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.list {
		if t := &s.list[i]; t.Tenant == tenant && t.ID == id && t.Revoked.IsZero() {
			t.Expires = until
			return true, nil
		}
	}
	return false, nil
}

func (s *tokens) RevokeToken(_ context.Context, tenant runtime.Tenant, id string, at time.Time) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.list {
		if t := &s.list[i]; t.Tenant == tenant && t.ID == id && t.Revoked.IsZero() {
			t.Revoked = at
			return true, nil
		}
	}
	return false, nil
}

type world struct {
	*identity.Identity
	store *tokens
	now   time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{store: &tokens{}, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	var err error
	w.Identity, err = identity.New(identity.Options{Store: w.store, Clock: func() time.Time { return w.now }})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) mint(t *testing.T, g identity.Grant) (runtime.Secret, identity.Token) {
	t.Helper()
	if g.Tenant == "" {
		g.Tenant = runtime.DefaultTenant
	}
	if g.Agent == "" {
		g.Agent = "ci"
	}
	if g.Scopes == nil {
		g.Scopes = []runtime.Scope{"*"}
	}
	if g.TTL == 0 {
		g.TTL = time.Hour
	}
	secret, token, err := w.Mint(t.Context(), identity.Operator(1000), g)
	if err != nil {
		t.Fatal(err)
	}
	return secret, token
}

func reason(err error) runtime.Reason {
	if err == nil {
		return ""
	}
	return runtime.AsError(err).Reason
}

func TestLoopbackNeedsTheOwner(t *testing.T) { // TK-012
	w := newWorld(t)
	owner := runtime.Peer{Owner: true, Known: true, UID: 1000}
	for _, c := range []struct {
		name   string
		caller runtime.Caller
		want   runtime.Reason
	}{
		{"the owner", runtime.Caller{Peer: owner}, ""},
		{"another user", runtime.Caller{Peer: runtime.Peer{Known: true, UID: 1001}}, runtime.ReasonForeignPeer},
		{"nobody knows", runtime.Caller{}, runtime.ReasonForeignPeer},
		{"nobody could ask", runtime.Caller{Peer: runtime.Peer{Unasked: true}}, runtime.ReasonForeignPeer},
		{"owner but not asked for", runtime.Caller{Peer: runtime.Peer{Owner: true, Unasked: true}}, runtime.ReasonForeignPeer},
		{"owner but not known", runtime.Caller{Peer: runtime.Peer{Owner: true}}, runtime.ReasonForeignPeer},
		{"the owner where a token is required", runtime.Caller{Peer: owner, RequireToken: true}, runtime.ReasonNoToken},
		{"the owner with a bad token", runtime.Caller{Peer: owner, Token: runtime.NewSecret("kmb_wrong")}, runtime.ReasonTokenUnknown},
	} {
		p, err := w.Identify(t.Context(), c.caller)
		if got := reason(err); got != c.want {
			t.Errorf("%s: reason %q, want %q", c.name, got, c.want)
		}
		if err != nil && runtime.CodeOf(err) != runtime.CodeUnauthenticated {
			t.Errorf("%s: code %s", c.name, runtime.CodeOf(err))
		}
		if err != nil && p.Permits("github.get-user") {
			t.Errorf("%s: a refused caller may do something", c.name)
		}
	}
	if _, err := w.Identify(t.Context(), runtime.Caller{Peer: runtime.Peer{Unasked: true}}); !strings.Contains(err.Error(), "could not be asked") {
		t.Errorf("nobody could ask: it says %q", err)
	}
	p, _ := w.Identify(t.Context(), runtime.Caller{Peer: owner})
	if p.Kind == runtime.KindOperator {
		t.Error("a program of the owner must not be able to decide approvals")
	}
}

func TestATokenEndsAtItsExpiryAndStaysEnded(t *testing.T) { // TK-001
	w := newWorld(t)
	secret, token := w.mint(t, identity.Grant{TTL: time.Hour})
	caller := runtime.Caller{Token: secret}
	w.now = token.Expires.Add(-time.Second)
	if _, err := w.Identify(t.Context(), caller); err != nil {
		t.Fatalf("a second before its end: %v", err)
	}
	w.now = token.Expires
	if _, err := w.Identify(t.Context(), caller); reason(err) != runtime.ReasonTokenExpired {
		t.Fatalf("at its end: %v", err)
	}
	w.now = token.Expires.Add(-time.Hour) // the clock is set back
	if _, err := w.Identify(t.Context(), caller); reason(err) != runtime.ReasonTokenExpired {
		t.Fatalf("a clock set back un-expired it: %v", err)
	}
	// A process that starts with a clock behind the maker's: a minute is taken, and
	// no more, so that a clock set back makes no token live longer.
	for back, want := range map[time.Duration]runtime.Reason{
		-time.Minute: "", -time.Minute - 1: runtime.ReasonTokenExpired, -time.Hour: runtime.ReasonTokenExpired,
		time.Hour - 1: "", time.Hour: runtime.ReasonTokenExpired, time.Hour + time.Second: runtime.ReasonTokenExpired,
	} {
		fresh, err := identity.New(identity.Options{Store: w.store, Clock: func() time.Time { return token.Created.Add(back) }})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fresh.Identify(t.Context(), caller); reason(err) != want {
			t.Errorf("%v after it was made: %v", back, err)
		} else if back < 0 && want != "" && !strings.Contains(err.Error(), "not valid yet") {
			t.Errorf("%v after it was made it says %v", back, err)
		}
	}
}

func TestARevokedTokenIsRefused(t *testing.T) { // TK-002
	w := newWorld(t)
	secret, token := w.mint(t, identity.Grant{})
	caller := runtime.Caller{Token: secret}
	if _, err := w.Identify(t.Context(), caller); err != nil {
		t.Fatal(err)
	}
	if ok, err := w.Revoke(t.Context(), runtime.DefaultTenant, token.ID); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := w.Identify(t.Context(), caller); reason(err) != runtime.ReasonTokenRevoked {
		t.Fatalf("after revocation: %v", err)
	}
	if ok, _ := w.Revoke(t.Context(), runtime.DefaultTenant, token.ID); ok {
		t.Error("revoked twice")
	}
	if ok, _ := w.Revoke(t.Context(), "other", token.ID); ok {
		t.Error("another tenant revoked it")
	}
}

func TestRevocationByAnotherProcess(t *testing.T) {
	w := newWorld(t)
	secret, token := w.mint(t, identity.Grant{})
	caller := runtime.Caller{Token: secret}
	_, _ = w.Identify(t.Context(), caller)
	_, _ = w.store.RevokeToken(t.Context(), runtime.DefaultTenant, token.ID, w.now)
	w.Forget()
	if _, err := w.Identify(t.Context(), caller); reason(err) != runtime.ReasonTokenRevoked {
		t.Fatalf("after Forget: %v", err)
	}
}

// A caller that leaves before its token was looked up is known all the same: what it asked for
// is recorded.
func TestWhoLeavesIsKnown(t *testing.T) {
	w := newWorld(t)
	secret, token := w.mint(t, identity.Grant{})
	ctx, leave := context.WithCancel(t.Context())
	leave()
	who, err := w.Identify(ctx, runtime.Caller{Token: secret})
	if err != nil || who.TokenID != token.ID {
		t.Errorf("%+v, %v", who, err)
	}
}

// Who has one token looked at anew, as often as it likes, costs the callers with other ones
// no look-up.
func TestOneTokenIsLookedAtAnew(t *testing.T) {
	w := newWorld(t)
	secret, token := w.mint(t, identity.Grant{})
	gone, _ := w.mint(t, identity.Grant{Agent: "gone"})
	other, _ := w.mint(t, identity.Grant{Agent: "other"})
	for _, one := range []runtime.Secret{secret, gone, other} {
		if _, err := w.Identify(t.Context(), runtime.Caller{Token: one}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Anew(t.Context(), runtime.Caller{Token: secret}); err != nil {
		t.Fatal(err)
	}
	_, _ = w.store.RevokeToken(t.Context(), runtime.DefaultTenant, token.ID, w.now) // by another process
	w.store.list = slices.DeleteFunc(w.store.list, func(t identity.Token) bool { return t.Agent == "gone" })
	for _, look := range []func(context.Context, runtime.Caller) (runtime.Principal, error){w.Anew, w.Identify} { // who looked knows it
		if _, err := look(t.Context(), runtime.Caller{Token: secret}); reason(err) != runtime.ReasonTokenRevoked {
			t.Errorf("a revoked token: %v", err)
		}
		if _, err := look(t.Context(), runtime.Caller{Token: gone}); runtime.CodeOf(err) != runtime.CodeUnauthenticated {
			t.Errorf("a token that is gone: %v", err)
		}
	}
	before := w.store.lookups
	if _, err := w.Identify(t.Context(), runtime.Caller{Token: other}); err != nil || w.store.lookups != before {
		t.Errorf("another one was looked up %d times more: %v", w.store.lookups-before, err)
	}
	if _, err := w.Anew(t.Context(), runtime.Caller{RequireToken: true}); reason(err) != runtime.ReasonNoToken {
		t.Errorf("without a token: %v", err)
	}
}

func TestAPrincipalMayDoWhatItsScopesNameAndNoMore(t *testing.T) { // TK-003
	w := newWorld(t)
	secret, _ := w.mint(t, identity.Grant{Scopes: []runtime.Scope{"github.list-*"}})
	p, err := w.Identify(t.Context(), runtime.Caller{Token: secret})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Permits("github.list-issues") || p.Permits("github.get-user") || p.Permits(runtime.ActionPass) {
		t.Errorf("scopes %v permit the wrong things", p.Scopes)
	}
	if empty := (runtime.Principal{}); empty.Permits("github.get-user") {
		t.Error("no scopes must mean nothing")
	}
	// A token that lost its scopes in the store is known, and may do nothing.
	for _, scopes := range [][]runtime.Scope{nil, {}, {""}} {
		w.store.list[0].Scopes = scopes
		w.Forget()
		p, err := w.Identify(t.Context(), runtime.Caller{Token: secret})
		if err != nil || p.TokenID == "" {
			t.Fatal(p, err)
		}
		for _, action := range []runtime.Ref{"github.list-issues", runtime.ActionPass, "*"} {
			if p.Permits(action) {
				t.Errorf("scopes %q permit %q", scopes, action)
			}
		}
	}
}

func TestNoTokenIsMadeForMoreThanItsMakerMay(t *testing.T) { // TK-008, TK-009
	w := newWorld(t)
	good := identity.Grant{Tenant: runtime.DefaultTenant, Agent: "ci", Scopes: []runtime.Scope{"github.*"}, TTL: time.Hour}
	operator := identity.Operator(1)
	narrow := operator
	narrow.Scopes = []runtime.Scope{"github.list-*"}
	agent, _ := w.Identify(t.Context(), runtime.Caller{Peer: runtime.Peer{Owner: true, Known: true}})
	for name, c := range map[string]struct {
		creator runtime.Principal
		change  func(*identity.Grant)
	}{
		"by an agent":           {agent, func(*identity.Grant) {}},
		"by nobody":             {runtime.Principal{}, func(*identity.Grant) {}},
		"no agent":              {operator, func(g *identity.Grant) { g.Agent = " " }},
		"a pattern for a name":  {operator, func(g *identity.Grant) { g.Agent = "*" }},
		"a role of two lines":   {operator, func(g *identity.Grant) { g.Roles = []string{"a\nb"} }},
		"no scope":              {operator, func(g *identity.Grant) { g.Scopes = nil }},
		"no scope at all":       {operator, func(g *identity.Grant) { g.Scopes = []runtime.Scope{"["} }},
		"empty scope":           {operator, func(g *identity.Grant) { g.Scopes = []runtime.Scope{""} }},
		"no life":               {operator, func(g *identity.Grant) { g.TTL = 0 }},
		"negative life":         {operator, func(g *identity.Grant) { g.TTL = -1 }},
		"ten years":             {operator, func(g *identity.Grant) { g.TTL = 10 * 365 * 24 * time.Hour }},
		"another tenant":        {operator, func(g *identity.Grant) { g.Tenant = "other" }},
		"wider than its maker":  {narrow, func(*identity.Grant) {}},
		"everything, by narrow": {narrow, func(g *identity.Grant) { g.Scopes = []runtime.Scope{"*"} }},
	} {
		g := good
		c.change(&g)
		if secret, _, err := w.Mint(t.Context(), c.creator, g); err == nil || !secret.Empty() {
			t.Errorf("%s: was not refused", name)
		}
	}
	if len(w.store.list) != 0 {
		t.Error("a refused token was stored")
	}
}

func TestOnlyTheHashIsStored(t *testing.T) { // TK-011
	w := newWorld(t)
	secret, token := w.mint(t, identity.Grant{})
	value := strings.TrimPrefix(secret.Reveal(), "kmb_")
	if len(value) != 49 {
		t.Errorf("a token of %d characters", len(value))
	}
	if strings.Contains(fmt.Sprintf("%+v %x", w.store.list, w.store.list), value) || strings.Contains(fmt.Sprintf("%v", token), value) {
		t.Error("the value of a token is stored")
	}
}

func TestLookupIsByHash(t *testing.T) { // TK-007
	w := newWorld(t)
	secret, _ := w.mint(t, identity.Grant{})
	good := secret.Reveal()
	for n := range 1000 { // one wrong character: the checksum catches it without a look-up
		i := 4 + rand.IntN(len(good)-4)
		bad := good[:i] + string("abcXYZ019"[rand.IntN(9)]) + good[i+1:]
		if bad == good {
			continue
		}
		if _, err := w.Identify(t.Context(), runtime.Caller{Token: runtime.NewSecret(bad), Source: fmt.Sprint(n)}); reason(err) != runtime.ReasonTokenUnknown {
			t.Fatalf("%d-th character changed: %v", i, err)
		}
	}
	if w.store.lookups != 0 {
		t.Errorf("%d look-ups for tokens that cannot be", w.store.lookups)
	}
}

func BenchmarkIdentifyToken(b *testing.B) {
	store := &tokens{}
	i, err := identity.New(identity.Options{Store: store, Clock: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	secret, _, err := i.Mint(b.Context(), identity.Operator(1), identity.Grant{Tenant: runtime.DefaultTenant, Agent: "ci", Scopes: []runtime.Scope{"*"}, TTL: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	caller := runtime.Caller{Token: secret}
	for b.Loop() {
		if _, err := i.Identify(b.Context(), caller); err != nil {
			b.Fatal(err)
		}
	}
}
