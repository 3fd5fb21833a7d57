package rest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// The id of an account or an address stands in most answers of its service. Hidden there like a
// key it would break them, and an answer in gzip would end in the middle.
func TestAUserThatIsNoSecretStaysInAnswers(t *testing.T) {
	for _, open := range []bool{false, true} {
		r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/account": func(c *servicestest.Conn, _ *servicestest.Request) bool {
			text := "AC0123456789abcdef0123 " + canary
			return c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text))
		}}})
		call := r.call("GET", "/account")
		call.Action.Auth = &runtime.Auth{Type: runtime.AuthBasic, UsernameRef: "u", UsernameOpen: open}
		call.Credential.Username = runtime.NewSecret("AC0123456789abcdef0123")
		answer, _ := r.must(t, call)
		if leaks(answer.Body) || strings.Contains(answer.Body, "AC0123456789abcdef0123") != open {
			t.Errorf("open %v: %q", open, answer.Body)
		}
	}
}
