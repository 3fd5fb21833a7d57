package app_test

import (
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// One process runs the scripts of all tenants. What it goes by when the process before it
// has died, so that nothing is done twice, stands in the trail under each one's own.
func TestTheTrailTellsOfTheScriptsOfEachTenant(t *testing.T) {
	t.Parallel()
	k, client := scripting(t, apptest.Options{})
	token := acmes(t, k)
	got := post(t, client, "/v1/exec", map[string]any{"code": `return await tools.notes.getNote({id: "1"})`}, token)
	if !got.Success {
		t.Fatal(got.text)
	}
	next := k.Open(t, "")
	apptest.Eventually(t, "the call of the script is known", func() bool {
		n, err := app.Begun(t.Context(), next, acme, got.ExecutionID)
		return err == nil && n == 1
	})
	if n, err := app.Begun(t.Context(), next, runtime.DefaultTenant, got.ExecutionID); err != nil || n != 0 {
		t.Errorf("%d calls of it are another tenant's, %v", n, err)
	}
	who := &runtime.Principal{ID: "token:tok_1", Tenant: acme}
	if lost, err := app.LoseResult(t.Context(), next, who, got.ExecutionID); err != nil || !lost {
		t.Errorf("that its result was given up is known: %t, %v", lost, err)
	}
}
