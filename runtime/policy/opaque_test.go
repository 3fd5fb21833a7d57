package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
)

// Whoever is refused a tunnel because of a rule about methods is told why, and what to do.
func TestATunnelThatARuleAboutMethodsDeniesIsExplained(t *testing.T) {
	p, err := policy.Parse("policy.yaml", []byte(`version: 1
rules: [{name: no-writes, match: {method: [POST, PUT]}, then: require_approval, reason: people write, approval: {count: 2}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	q := question(t, "tunnel=any.example:443")
	v, steps := p.Decide(q), p.Explain(q)
	if v.Effect != runtime.EffectDeny || v.Terms.Count != 0 || !strings.HasPrefix(v.Reason, "people write; kimbap does not see") || !strings.Contains(v.Fix, "proxy.intercept: all") {
		t.Errorf("%+v", v)
	}
	if len(steps) != 1 || steps[0].Effect != runtime.EffectDeny || !strings.Contains(steps[0].Why, `a method may be any of "POST", "PUT"; kimbap does not see`) {
		t.Errorf("%+v", steps)
	}
}

// What validate warns of are the rules about what a tunnel does not show, and of those the ones
// that tunnels to hosts without a service come to.
func TestRulesAboutWhatATunnelHidesAreFound(t *testing.T) {
	p, err := policy.Parse("policy.yaml", []byte(`version: 1
rules:
  - {name: of-a-service, match: {service: github, method: DELETE}, then: deny}
  - {name: of-actions, match: {action: ["*.delete-*", github.create-issue], method: DELETE}, then: deny}
  - {name: of-a-host, match: {host: [api.owned.example, "owned.example:8443"], method: DELETE}, then: deny}
  - {name: of-a-risk, match: {risk: high, method: POST}, then: deny}
  - {name: of-calls, match: {surface: call, method: POST}, then: deny}
  - {name: of-tunnels, match: {method: CONNECT, host: x.example}, then: deny}
  - {name: of-openings, match: {host: x.example}, when: request.method == "CONNECT", then: deny}
  - {name: of-hosts, match: {host: "*.example"}, when: request.host != "y.example", then: deny}
  - {name: by-method, match: {method: [POST, PUT]}, then: deny}
  - {name: by-path, match: {host: x.example}, when: 'request.path == "/x" && request.headers["a"] == "b" && request.method == "GET"', then: allow}
  - {name: tunnels-pass, match: {action: net.pass, method: CONNECT}, then: allow}
  - {name: below-it, match: {method: DELETE}, then: deny}
`))
	if err != nil {
		t.Fatal(err)
	}
	owned := func(authority string) bool {
		return strings.HasSuffix(strings.Split(authority, ":")[0], "owned.example")
	}
	var got []string
	for _, s := range p.Opaque(owned) {
		got = append(got, s.Rule+": "+strings.Join(s.Looks, ", "))
	}
	if want := []string{"by-method: the method", "by-path: request.path, request.headers, request.method"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
