package recognised_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/recognised"
)

// Who has an action for /** and is told that none covers the request is told what keeps it.
func TestAnEncodedSlashIsNamed(t *testing.T) {
	for target, want := range map[string]bool{
		"/npm/@scope%2fname": true, "/npm/@scope%2Fname?x=1": true, "/a%5Cb": true, "/a%5cb": true,
		"/a/b": false, "/a%252Fb": false, "/a?x=%2F": false, "/a%2": false, "/a%": false, "/%2e": false, "": false,
	} {
		e := recognised.None("npm.test:443", target)
		if got := strings.Contains(e.Hint, "allow_slash") && strings.Contains(e.Msg, "encoded slash"); got != want || e.Code != "unknown_action" || e.Reason != "unmatched" {
			t.Errorf("%s: %+v", target, e)
		}
	}
}
