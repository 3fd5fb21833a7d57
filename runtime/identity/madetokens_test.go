package identity_test

import (
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/identity"
)

// The token of a run goes on with it, for whoever made it, and never longer than a
// maker that is a token itself. What was revoked stays revoked.
func TestTheTokenOfARunIsProlongedByItsMakerAlone(t *testing.T) {
	w := newWorld(t)
	owner := identity.Operator(1000)
	secret, token := w.mint(t, identity.Grant{Run: "run_1"})
	_, plain := w.mint(t, identity.Grant{})
	stranger := identity.Operator(1001)
	abroad := owner
	abroad.Tenant = "other"
	for name, c := range map[string]struct {
		by runtime.Principal
		id string
	}{
		"by another":            {stranger, token.ID},
		"by another tenant":     {abroad, token.ID},
		"of no run":             {owner, plain.ID},
		"one that is not there": {owner, "tok_none"},
	} {
		if _, ok, err := w.Prolong(t.Context(), c.by, c.id, time.Hour); ok || err != nil {
			t.Errorf("%s: %v %v", name, ok, err)
		}
	}
	agent := owner
	agent.Kind = runtime.KindAgent
	if _, ok, err := w.Prolong(t.Context(), agent, token.ID, time.Hour); ok || err == nil {
		t.Error("an agent prolonged a token")
	}
	if _, ok, err := w.Prolong(t.Context(), owner, token.ID, 10*365*24*time.Hour); ok || err == nil {
		t.Error("ten years more")
	}
	w.now = token.Expires.Add(time.Minute)
	if _, err := w.Identify(t.Context(), runtime.Caller{Token: secret}); reason(err) != runtime.ReasonTokenExpired {
		t.Fatalf("nobody prolonged it: %v", err)
	}
	if left, ok, err := w.Prolong(t.Context(), owner, token.ID, time.Hour); !ok || err != nil || left != time.Hour {
		t.Fatal(left, ok, err)
	}
	if _, err := w.Identify(t.Context(), runtime.Caller{Token: secret}); err != nil {
		t.Errorf("prolonged: %v", err)
	}
	maker := owner
	maker.ID, maker.TokenID, maker.Expires = "token:tok_m", "tok_m", w.now.Add(20*time.Minute)
	_, ofToken, err := w.Mint(t.Context(), maker, identity.Grant{Tenant: runtime.DefaultTenant, Agent: "ci", Run: "run_2", Scopes: []runtime.Scope{"*"}, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if left, ok, err := w.Prolong(t.Context(), maker, ofToken.ID, time.Hour); !ok || err != nil || left != 20*time.Minute {
		t.Errorf("longer than its maker: %v %v %v", left, ok, err)
	}
	if _, err := w.Revoke(t.Context(), runtime.DefaultTenant, token.ID); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := w.Prolong(t.Context(), owner, token.ID, time.Hour); ok || err != nil {
		t.Errorf("what was revoked came back: %v %v", ok, err)
	}
}

// Another process has revoked a token that this one still takes for a good one, and has
// ended the runs that it knew of: what is made by it now would be good for its whole life.
func TestARevokedTokenMakesNoOther(t *testing.T) {
	w := newWorld(t)
	secret, token := w.mint(t, identity.Grant{Roles: []string{"kimbap.operator"}})
	maker, err := w.Identify(t.Context(), runtime.Caller{Token: secret})
	if err != nil {
		t.Fatal(err)
	}
	if maker, err = identity.AsOperator(maker); err != nil {
		t.Fatal(err)
	}
	other, err := identity.New(identity.Options{Store: w.store, Clock: func() time.Time { return w.now }})
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := other.Revoke(t.Context(), runtime.DefaultTenant, token.ID); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, run := range []string{"", "run_1"} {
		made, _, err := w.Mint(t.Context(), maker, identity.Grant{Tenant: runtime.DefaultTenant, Agent: "ci", Run: run, Scopes: []runtime.Scope{"*"}, TTL: time.Minute})
		if reason(err) != runtime.ReasonTokenRevoked || !made.Empty() {
			t.Errorf("run %q: %v", run, err)
		}
	}
	for _, one := range w.store.list {
		if one.Revoked.IsZero() {
			t.Errorf("%s of %s is good", one.ID, one.Creator)
		}
	}
}

// Revoking a token ends it and the runs that it made, and nobody else's; and it takes nothing
// from what another token makes.
func TestRevokingATokenEndsItsRunsAlone(t *testing.T) {
	w := newWorld(t)
	var makers []runtime.Principal
	var ids []string
	for range 2 {
		secret, token := w.mint(t, identity.Grant{Roles: []string{"kimbap.operator", "dev"}})
		maker, err := w.Identify(t.Context(), runtime.Caller{Token: secret})
		if err != nil {
			t.Fatal(err)
		}
		if maker, err = identity.AsOperator(maker); err != nil {
			t.Fatal(err)
		}
		makers, ids = append(makers, maker), append(ids, token.ID)
	}
	mint := func(maker runtime.Principal, g identity.Grant) (string, error) {
		g.Tenant, g.Agent, g.Scopes, g.TTL = runtime.DefaultTenant, "ci", []runtime.Scope{"*"}, time.Minute
		_, made, err := w.Mint(t.Context(), maker, g)
		return made.ID, err
	}
	gone := map[string]bool{ids[0]: true}
	for i, maker := range makers {
		for _, run := range []string{"", "run_1"} {
			id, err := mint(maker, identity.Grant{Run: run, Roles: []string{"dev"}})
			if err != nil {
				t.Fatal(err)
			}
			gone[id] = i == 0 && run != ""
		}
		for _, g := range []identity.Grant{{Roles: []string{"kimbap.operator"}}, {Roles: []string{"finance"}}, {Groups: []string{"leads"}}} {
			if id, err := mint(maker, g); reason(err) != runtime.ReasonScope {
				t.Errorf("%+v made %s: %v", g, id, err)
			}
		}
	}
	if ok, err := w.Revoke(t.Context(), runtime.DefaultTenant, ids[0]); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, one := range w.store.list {
		if one.Revoked.IsZero() == gone[one.ID] {
			t.Errorf("%s of %s, run %q: revoked %t", one.ID, one.Creator, one.Run, !one.Revoked.IsZero())
		}
	}
	if _, err := mint(makers[1], identity.Grant{}); err != nil {
		t.Errorf("another token makes none any more: %v", err)
	}
	_, _ = w.store.RevokeToken(t.Context(), runtime.DefaultTenant, ids[1], w.now) // by a process that came no further
	for _, want := range []bool{true, false} {
		if ok, err := w.Revoke(t.Context(), runtime.DefaultTenant, ids[1]); ok != want || err != nil {
			t.Errorf("revoking what is left of it: %v %v, want %v", ok, err, want)
		}
	}
}
