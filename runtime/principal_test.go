package runtime_test

import (
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// Who is taken for the owner reaches private addresses, and signs in to the console.
func TestTheOwnerIsWhoeverShowsNoTokenWhereNoneIsDemanded(t *testing.T) {
	token, ours := runtime.NewSecret("kmb_x"), runtime.Peer{Owner: true, Known: true}
	for _, c := range []struct {
		caller runtime.Caller
		owner  bool
	}{
		{runtime.Caller{Peer: ours}, true},
		{runtime.Caller{Peer: ours, Token: token}, false},
		{runtime.Caller{Peer: ours, RequireToken: true}, false},
		{runtime.Caller{Peer: runtime.Peer{Known: true}}, false},
		{runtime.Caller{}, false},
	} {
		if c.caller.IsOwner() != c.owner {
			t.Errorf("%+v: owner %v", c.caller, !c.owner)
		}
	}
}
