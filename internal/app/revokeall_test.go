package app_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/identity"
)

// A token that makes others is revoked with all there are: what it makes until its turn
// comes, by another process, is no way around that.
func TestNothingThatIsMadeMeanwhileSurvivesRevokingAll(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	secret, id := tokenOf(t, k, app.TokenGrant{Agent: "stolen", Roles: []string{runtime.RoleOperator}})
	maker, err := k.App.Tokens().Identify(t.Context(), runtime.Caller{Token: runtime.NewSecret(secret)})
	if err == nil {
		maker, err = identity.AsOperator(maker)
	}
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	revoking, made := false, []string{}
	o := apptest.OptionsOver(k.Dir, "", k.Log, false)
	o.Clock = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		if revoking && len(made) < 50 { // whatever it does, the other one is as fast
			_, token, err := k.App.Tokens().Mint(t.Context(), maker, identity.Grant{Tenant: runtime.DefaultTenant, Agent: "kept", Scopes: []runtime.Scope{"*"}, TTL: time.Minute})
			if err == nil {
				made = append(made, token.ID)
			}
		}
		return time.Now()
	}
	person := apptest.OpenWith(t, o)
	set := func(now bool) { mu.Lock(); defer mu.Unlock(); revoking = now }
	set(true)
	ids, err := person.RevokeTokens(t.Context())
	set(false)
	if err != nil || !slices.Contains(ids, id) || len(made) == 0 {
		t.Fatalf("%v revoked, %v made: %v", ids, made, err)
	}
	all, err := person.ListTokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.Revoked.IsZero() {
			t.Errorf("%s of %s is good, made meanwhile: %t", one.ID, one.Creator, slices.Contains(made, one.ID))
		}
		if slices.Contains(made, one.ID) && !slices.Contains(ids, one.ID) {
			t.Errorf("%s is not told of", one.ID)
		}
	}
}
