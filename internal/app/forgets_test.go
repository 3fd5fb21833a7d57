package app_test

import (
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// A store that takes its time to answer may hide a revocation: what was read of it is
// forgotten while it is asked still.
func TestWhatWasReadIsForgottenWhileTheStoreIsAsked(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	token, minted, err := k.App.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Scopes: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	a := k.Open(t, "") // nothing watches for it
	known := func() bool {
		_, err := app.Identify(t.Context(), a, runtime.Caller{Token: token})
		return err == nil
	}
	if !known() {
		t.Fatal("the token is not known")
	}
	if _, err := k.App.RevokeToken(t.Context(), minted.ID); err != nil {
		t.Fatal(err)
	}
	if !known() {
		t.Fatal("nothing is remembered, so this test shows nothing")
	}
	asked := app.FollowStuck(t.Context(), a)
	apptest.Within(t, soon, "the end of the token", func() bool { return !known() })
	asked()
}
