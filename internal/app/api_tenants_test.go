package app_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// The counts are of everybody's requests, so that only an operator of the home's own
// tenant reads them.
func TestCountsAreNotForOtherTenants(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	if err := k.Open(t, "").CreateTenant(t.Context(), "acme", false); err != nil {
		t.Fatal(err)
	}
	grant := app.TokenGrant{Agent: "op", Scopes: []string{"*"}, Roles: []string{runtime.RoleAdmin}, TTL: time.Hour}
	theirs, _, err := k.OpenAs(t, "acme").CreateToken(t.Context(), grant)
	if err != nil {
		t.Fatal(err)
	}
	ours, _ := tokenOf(t, k, grant)
	c := newAPI(t, k)
	if got := c.ask(t, ours, "POST", "/v1/actions/notes/get-note:execute", `{"input":{"id":1}}`); got.Status != 200 {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	if got := c.ask(t, theirs.Reveal(), "GET", "/metrics", ""); got.Status != 403 || strings.Contains(got.Body, "kimbap_requests_total") {
		t.Errorf("an operator of another tenant: %d %.300s", got.Status, got.Body)
	}
	if got := c.ask(t, ours, "GET", "/metrics", ""); got.Status != 200 || !strings.Contains(got.Body, `surface="rest"`) {
		t.Errorf("our own: %d %.300s", got.Status, got.Body)
	}
}
