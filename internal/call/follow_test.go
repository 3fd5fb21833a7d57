package call

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// A GET without a body is all that there is of it, so a service that wants every body
// checked is followed as any other.
func TestAStrictServiceIsFollowed(t *testing.T) {
	t.Parallel()
	set := servicestest.Set(t, "logs.yaml", `
name: logs
version: 1.0.0
base_url: https://api.logs.test
strict: true
actions:
  list: {method: GET, path: /logs, args: [{name: kind}], pagination: {type: link}}
  admin: {method: GET, path: /logs/admin, risk: {level: critical}}
  guarded: {method: GET, path: /logs, match: {body: {/role: admin}}, risk: {level: critical}}
`)
	a := Actions{Services: services.NewLive(set)}
	action, _ := set.Action("logs.list")
	from, err := a.first(&runtime.Request{Action: "logs.list", Args: runtime.Args{"kind": "a"}}, action)
	if err != nil || from.url == nil { // which first leaves out where the pipeline will refuse it
		t.Fatal(err)
	}
	for ref, want := range map[string]runtime.Ref{"/logs?kind=a&page=2": "logs.list", "/logs/admin": "logs.admin", "/other": "", "https://elsewhere.test/logs": ""} {
		next, err := a.follow(from, ref, "continues on")
		if (err == nil) != (want != "") || err == nil && next.req.Action != want {
			t.Errorf("%s leads to %v (%v), want %q", ref, next.req, err, want)
		}
	}
}

// A HEAD that is redirected is a HEAD still (RFC 9110 section 15.4).
func TestARedirectKeepsAHead(t *testing.T) {
	t.Parallel()
	set := servicestest.Set(t, "logs.yaml", `
name: logs
version: 1.0.0
base_url: https://api.logs.test
actions:
  look: {method: HEAD, path: /logs}
  list: {method: GET, path: /logs}
  add: {method: POST, path: /logs}
  look-on: {method: HEAD, path: /on}
  read-on: {method: GET, path: /on}
`)
	a := Actions{Services: services.NewLive(set)}
	for name, want := range map[string]string{"look": "HEAD look-on", "list": "GET read-on", "add": "GET read-on"} {
		action, _ := set.Action("logs." + name)
		s, err := a.first(&runtime.Request{Action: action.Ref}, action)
		for hop := 0; err == nil && hop < 2; hop++ {
			s, err = a.redirected(s, "/on?hop=1", 303)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.req.Target.Method + " " + strings.TrimPrefix(string(s.req.Action), "logs."); got != want {
				t.Errorf("%s leads to %s, want %s", name, got, want)
			}
		}
	}
}
