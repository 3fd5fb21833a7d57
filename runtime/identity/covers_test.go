package identity

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kimbap-run/kimbap/runtime"
)

// What covers says must hold for every action: none that the new scope matches
// may be one that the creator's do not.
func TestCoversIsSound(t *testing.T) {
	glob := rapid.StringMatching(`[ab.*]{1,6}`)
	rapid.Check(t, func(t *rapid.T) {
		by := []runtime.Scope{runtime.Scope(glob.Draw(t, "by")), runtime.Scope(glob.Draw(t, "or by"))}
		scope := glob.Draw(t, "scope")
		if !covers(by, runtime.Scope(scope)) {
			return
		}
		var action strings.Builder // one that the scope matches
		for _, r := range scope {
			if r == '*' {
				action.WriteString(rapid.StringMatching(`[ab.*]{0,4}`).Draw(t, "any"))
			} else {
				action.WriteRune(r)
			}
		}
		if !by[0].Match(action.String()) && !by[1].Match(action.String()) {
			t.Errorf("%q covered by %q, but not its action %q", scope, by, action.String())
		}
	})
	if !covers([]runtime.Scope{"github.*"}, "github.list-*") || covers([]runtime.Scope{"github.*"}, "git*") || covers(nil, "a.b") {
		t.Error("the plain cases")
	}
}
