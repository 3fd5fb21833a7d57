package storetest

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/identity"
)

func aToken(tenant runtime.Tenant, n int) identity.Token {
	id := fmt.Sprintf("tok_%03d", n)
	return identity.Token{
		ID: id, Hash: sha256.Sum256([]byte(string(tenant) + id)), Tenant: tenant, Agent: "claude", Run: "run_1",
		Scopes: []runtime.Scope{"github.*", "a.\"quoted\""}, Roles: []string{"developer"}, Groups: []string{"eu"}, Creator: "local:1000",
		Created: at(n), Expires: at(n + 60),
	}
}

// byTenant are the tokens that are there, by their tenant and id.
func byTenant(list []identity.Token) map[string]identity.Token {
	of := map[string]identity.Token{}
	for _, t := range list {
		of[string(t.Tenant)+" "+t.ID] = t
	}
	return of
}

func tokens(t *testing.T, s Store) {
	ctx := t.Context()
	bare := identity.Token{ID: "tok_bare", Hash: [32]byte{1}, Tenant: theirs, Created: at(1)}
	for _, token := range []identity.Token{aToken(ours, 1), aToken(ours, 3), aToken(ours, 2), bare} {
		must(t, s.AddToken(ctx, token))
	}
	for _, want := range []identity.Token{aToken(ours, 2), bare} {
		got, found, err := s.TokenByHash(ctx, want.Hash)
		must(t, err)
		same(t, "token", []any{found, got}, []any{true, want})
	}
	if _, found, err := s.TokenByHash(ctx, [32]byte{9}); err != nil || found {
		t.Errorf("an unknown hash: %v %v", found, err)
	}
	list, err := s.Tokens(ctx, ours)
	must(t, err)
	same(t, "tokens", list, []identity.Token{aToken(ours, 3), aToken(ours, 2), aToken(ours, 1)})

	if prolonged, err := s.ProlongToken(ctx, theirs, "tok_002", at(99)); err != nil || prolonged {
		t.Errorf("prolonged another tenant's token: %v %v", prolonged, err)
	}
	if prolonged, err := s.ProlongToken(ctx, ours, "tok_001", at(99)); err != nil || !prolonged {
		t.Errorf("prolong: %v %v", prolonged, err)
	}
	longer := aToken(ours, 1)
	longer.Expires = at(99)
	kept, _, err := s.TokenByHash(ctx, longer.Hash)
	must(t, err)
	same(t, "prolonged token", kept, longer)
	if revoked, err := s.RevokeToken(ctx, theirs, "tok_002", at(9)); err != nil || revoked {
		t.Errorf("revoked another tenant's token: %v %v", revoked, err)
	}
	if once := together(t, 20, func(int) (bool, error) { return s.RevokeToken(ctx, ours, "tok_002", at(9)) }); once != 1 {
		t.Errorf("%d of 20 revoked one token", once)
	}
	want := aToken(ours, 2)
	want.Revoked = at(9)
	got, _, err := s.TokenByHash(ctx, want.Hash)
	must(t, err)
	same(t, "revoked token", got, want)
	run := aToken(theirs, 4)
	must(t, s.AddToken(ctx, run))
	runs, err := s.RunTokens(ctx)
	must(t, err)
	same(t, "tokens of runs of all tenants", byTenant(runs), byTenant([]identity.Token{longer, aToken(ours, 3), run}))
	if prolonged, err := s.ProlongToken(ctx, ours, "tok_002", at(99)); err != nil || prolonged {
		t.Errorf("prolonged a revoked token: %v %v", prolonged, err)
	}
}

// Tokens of long ago go when others are made, of their own tenant only.
func oldTokens(t *testing.T, s Store) {
	ctx := t.Context()
	old, others := aToken(ours, 1), aToken(theirs, 1)
	later := aToken(ours, 2)
	later.Created, later.Expires = old.Expires.Add(identity.EndedKept), old.Expires.Add(2*identity.EndedKept)
	last := aToken(ours, 3)
	last.Created, last.Expires = later.Created.Add(time.Microsecond), later.Expires
	for _, token := range []identity.Token{old, others, later} {
		must(t, s.AddToken(ctx, token))
	}
	has := func() (found []bool) {
		for _, token := range []identity.Token{old, others, later, last} {
			_, is, err := s.TokenByHash(ctx, token.Hash)
			must(t, err)
			found = append(found, is)
		}
		return found
	}
	same(t, "tokens while the first is kept", has(), []bool{true, true, true, false})
	must(t, s.AddToken(ctx, last))
	same(t, "tokens when its time is over", has(), []bool{false, true, true, true})
}

func tokenConflicts(t *testing.T, s Store) {
	ctx := t.Context()
	must(t, s.AddToken(ctx, aToken(ours, 1)))
	sameHash := aToken(theirs, 2)
	sameHash.Hash = aToken(ours, 1).Hash
	if err := s.AddToken(ctx, sameHash); err == nil {
		t.Error("two tokens have one hash")
	}
	sameID := aToken(ours, 1)
	sameID.Hash = [32]byte{7}
	if err := s.AddToken(ctx, sameID); err == nil {
		t.Error("two tokens of a tenant have one id")
	}
	must(t, s.AddToken(ctx, aToken(theirs, 1)))
}
