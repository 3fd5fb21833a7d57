package call

import (
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
