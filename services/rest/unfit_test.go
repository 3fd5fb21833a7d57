package rest_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// A stored value that no header field can hold is not the caller's fault, and nothing of it leaves;
// where it is escaped it goes.
func TestAStoredValueOfSeveralLinesIsTheOwnersToMend(t *testing.T) {
	const lines = "line1-abcdefgh\r\nX-Evil: 1"
	for name, c := range map[string]struct {
		auth  runtime.Auth
		value string
		sent  bool
	}{
		"bearer":   {runtime.Auth{Type: runtime.AuthBearer}, lines, false},
		"oauth2":   {runtime.Auth{Type: runtime.AuthOAuth2}, "a\nb-abcdefgh", false},
		"header":   {runtime.Auth{Type: runtime.AuthHeader, Header: "X-Key", Prefix: "Key "}, "one-abcdefgh\r", false},
		"control":  {runtime.Auth{Type: runtime.AuthHeader, Header: "X-Key"}, "one-\x1b[0m-abcdefgh", false},
		"query":    {runtime.Auth{Type: runtime.AuthQuery, Query: "key"}, lines, true},
		"basic":    {runtime.Auth{Type: runtime.AuthBasic, Username: "me"}, lines, true},
		"one line": {runtime.Auth{Type: runtime.AuthBearer}, "one\tline-abcdefgh", true},
	} {
		r := newRig(t, servicestest.Options{})
		for from, call := range map[string]*runtime.Call{"proxy": r.call("GET", "/"), "call": r.call("GET", "/")} {
			if from == "call" {
				call.Request.Raw = nil
			}
			call.Action.Auth, call.Credential.Value = &c.auth, runtime.NewSecret(c.value)
			if c.sent {
				_, _ = r.must(t, call)
				continue
			}
			e := r.refused(t, call, runtime.CodeNoCredential, "")
			if !strings.Contains(e.Msg, `"test"`) || !strings.HasSuffix(e.Hint, "kimbap link test") || strings.Contains(e.Msg, "abcdefgh") {
				t.Errorf("%s, %s: %s; %s", name, from, e.Msg, e.Hint)
			}
			equal(t, name+": requests", len(r.Requests()), 0)
		}
	}
}
