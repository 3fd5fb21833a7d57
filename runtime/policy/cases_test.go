package policy_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
)

func TestCasesSayAllOfARequest(t *testing.T) {
	cases, err := policy.ParseCases("policy_test.yaml", []byte(`version: 1
tests:
  - name: full
    request: POST https://api.example.com/x
    args: {n: 10, f: 1.5, s: "7", b: true, l: [1, a], o: {k: null}}
    body: {a: 1}
    headers: {X-Env: prod}
    agent: ci
    roles: [dev, ops]
    groups: eu
    tenant: t2
    kind: operator
    surface: call
    at: 2026-11-21T07:30:00+01:00
    expect: require_approval
    rule: r
  - {name: short, action: a.b, expect: deny}
`))
	if err != nil || len(cases) != 2 {
		t.Fatal(err)
	}
	c := cases[0]
	args, _ := json.Marshal(c.Args)
	if string(args) != `{"b":true,"f":1.5,"l":[1,"a"],"n":10,"o":{"k":null},"s":"7"}` {
		t.Errorf("%s", args)
	}
	if c.Request != "POST https://api.example.com/x" || c.Agent != "ci" || strings.Join(c.Roles, " ") != "dev ops" || c.Groups[0] != "eu" ||
		c.Tenant != "t2" || c.Kind != runtime.KindOperator || c.Surface != runtime.SurfaceCall || c.Expect != runtime.EffectAsk || c.Rule != "r" ||
		c.Headers["X-Env"] != "prod" || c.At.UTC() != time.Date(2026, 11, 21, 6, 30, 0, 0, time.UTC) || c.Line != 3 {
		t.Errorf("%+v", c)
	}
	if s := cases[1]; s.Agent != "local" || s.Tenant != "" || s.Surface != runtime.SurfaceProxy || s.Kind != runtime.KindAgent || !s.At.IsZero() {
		t.Errorf("%+v", s)
	}
}

func TestCasesWithProblems(t *testing.T) {
	for text, want := range map[string]string{
		"tests: []":                           "version is missing",
		"version: 2":                          "version is not one",
		"version: 1\ntests: {a: b}":           "tests must be a list of tests",
		"version: 1\nverdicts: []":            "has no field \"verdicts\"",
		"version: 1\ntests: [{name: a}]":      "the test has no expect",
		"version: 1\ntests: [{expect: deny}]": "the test has no name",
		"version: 1\ntests: [{name: a, expect: deny, action: a.b, request: GET https://x/}]": "either a request or an action",
		"version: 1\ntests: [{name: a, expect: alow, action: a.b}]":                          "did you mean allow?",
		"version: 1\ntests: [{name: a, expect: deny, action: a.b, at: noon}]":                "at is not a time with a zone",
		"version: 1\ntests: [{name: a, expect: deny, action: a.b, args: [1]}]":               "args must be arguments",
		"version: 1\ntests: [{name: a, expect: deny, action: a.b, risk: hgih}]":              "did you mean high?",
		"version: 1\ntests: [{name: a, expect: deny, action: a.b, surface: browser}]":        "surface is one of proxy, call, exec, rest, mcp",
		"version: 1\ntests: [{name: a, expect: deny, action: a.b, kind: person}]":            "kind is one of agent, operator",
		"version: 1\ntests: [{name: a, expect: deny, action: a.b, headers: [Sudo]}]":         "headers must be names with values",
		"version: 1\ntests: [{name: a, expect: deny, action: a.b, args: {n: 0x10}}]":         "0x10 is not a number of JSON",
		"version: 1\ntests: [{name: a, expect: deny, action: a.b, args: {n: &x 1}}]":         "anchors (&x) are not allowed",
	} {
		_, err := policy.ParseCases("t.yaml", []byte(text))
		var problems policy.Problems
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v", text, err)
		}
	}
}

// A verdict that is none is a denial, and never what a test expects of a body
// that it does not give.
func TestAVerdictThatIsNoneMeetsOnlyADenial(t *testing.T) {
	deny := policy.Case{Expect: runtime.EffectDeny}
	for _, c := range []struct {
		is   policy.Case
		v    runtime.Verdict
		want bool
	}{
		{deny, runtime.Verdict{Effect: runtime.EffectDeny, Rule: "r"}, true},
		{deny, runtime.Verdict{Rule: "r"}, true},
		{deny, runtime.Verdict{NeedBody: true, Rule: "r"}, false},
		{deny, runtime.Verdict{Effect: runtime.EffectAllow, Rule: "r"}, false},
		{policy.Case{Expect: runtime.EffectDeny, Rule: "s"}, runtime.Verdict{Effect: runtime.EffectDeny, Rule: "r"}, false},
		{policy.Case{Expect: runtime.EffectAsk, Rule: "r"}, runtime.Verdict{Effect: runtime.EffectAsk, Rule: "r"}, true},
	} {
		if met, why := c.is.Met(c.v); met != c.want || why == "" {
			t.Errorf("%+v of %+v: %t %s", c.v, c.is, met, why)
		}
	}
}
