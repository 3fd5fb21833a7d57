package policy_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
)

func TestDigestIsOfTheMeaning(t *testing.T) {
	parse := func(text string) string {
		t.Helper()
		p, err := policy.Parse("policy.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return p.Digest()
	}
	one := parse("version: 1\nrules: [{name: a, match: {action: [x.y, x.z]}, then: deny}]\n")
	if same := parse("# words\nversion: 1\nmode: enforce\nrules:\n- {then: deny, name: a, match: {action: [x.z, x.y]}}\n"); same != one {
		t.Error("the same policy has two digests")
	}
	for _, other := range []string{
		"version: 1\nrules: [{name: a, match: {action: [x.y]}, then: deny}]\n",
		"version: 1\nrules: [{name: a, match: {action: [x.y, x.z]}, then: allow}]\n",
		"version: 1\nmode: report\nrules: [{name: a, match: {action: [x.y, x.z]}, then: deny}]\n",
		"version: 1\ndefaults: {low: deny}\nrules: [{name: a, match: {action: [x.y, x.z]}, then: deny}]\n",
	} {
		if parse(other) == one {
			t.Errorf("same digest:\n%s", other)
		}
	}
	// Everything a rule can say makes it another one: what records say of the policy would
	// otherwise be true of two.
	seen := map[string]string{}
	for _, rule := range []string{
		"match: {agent: x}, then: allow", "match: {agent: z}, then: allow", "match: {tenant: x}, then: allow", "match: {agent: x, tenant: x}, then: allow",
		"match: {agent: [tenant, x]}, then: allow", "match: {agent: x}, then: allow, reason: why", "match: {agent: x}, then: allow, when: 'true'",
		"match: {agent: x}, then: allow, limit: {rate: 1/m}", "match: {agent: x}, then: allow, limit: {rate: 1/h}",
		"match: {agent: x}, then: allow, limit: {rate: 2/m, burst: 1}", "match: {agent: x}, then: allow, limit: {rate: 1/m, burst: 2}",
		"match: {agent: x}, then: allow, limit: {rate: 1/m, per: action}", "match: {agent: x}, limit: {rate: 1/m}",
		"match: {agent: x}, then: require_approval", "match: {agent: x}, then: require_approval, approval: {expires: 5m}",
		"match: {agent: x}, then: require_approval, approval: {count: 2}", "match: {agent: x}, then: require_approval, approval: {presence: pin}",
		"match: {agent: x}, then: require_approval, approval: {by: [role:a]}", "match: {agent: x}, then: require_approval, approval: {by: [role:b]}",
		"match: {agent: x}, then: require_approval, approval: {by: [role:a, role:b]}",
	} {
		digest := parse("version: 1\nrules: [{name: a, " + rule + "}]\n")
		if other, twice := seen[digest]; twice {
			t.Errorf("same digest:\n%s\n%s", other, rule)
		}
		seen[digest] = rule
	}
}

// What a rule says of the approval and of the rate stands in the verdict, as it is written.
func TestAVerdictHasTheTermsAndTheRateOfItsRule(t *testing.T) {
	p, err := policy.Parse("policy.yaml", []byte("version: 1\nrules:\n"+
		"- {name: often, match: {}, limit: {rate: 30/m}}\n"+
		"- {name: daily, match: {}, limit: {rate: 24/d, burst: 7}}\n"+
		"- {name: two, match: {}, then: require_approval, approval: {expires: 90m, count: 2, by: [role:finance, local:7], presence: pin}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	v := p.Decide(question(t, "action=a.b"))
	want := runtime.ApprovalTerms{Expires: 90 * time.Minute, Count: 2, By: []string{"role:finance", "local:7"}, Presence: "pin"}
	if !reflect.DeepEqual(v.Terms, want) {
		t.Errorf("terms %+v", v.Terms)
	}
	if len(v.Limits) != 2 {
		t.Fatalf("limits %+v", v.Limits)
	}
	for i, want := range []runtime.Limit{{Rule: "often", Every: 2 * time.Second, Burst: 30}, {Rule: "daily", Every: time.Hour, Burst: 7}} {
		got := v.Limits[i]
		if got.Rule != want.Rule || got.Every != want.Every || got.Burst != want.Burst {
			t.Errorf("limit %+v, want %+v", got, want)
		}
	}
}

// The most, the longest and the least that a rule may say are still said.
func TestTheBoundsOfARuleAreInIt(t *testing.T) {
	for _, rule := range []string{
		"limit: {rate: 1000000/s, burst: 1000000}", "limit: {rate: 1/d, burst: 1}",
		"then: require_approval, approval: {count: 10, expires: 168h}", "then: require_approval, approval: {count: 1, expires: 1s}",
		"then: deny, reason: " + strings.Repeat("x", 500),
	} {
		if _, err := policy.Parse("policy.yaml", []byte("version: 1\nrules: [{name: a, match: {}, "+rule+"}]\n")); err != nil {
			t.Errorf("%.60s: %v", rule, err)
		}
	}
}

// The files that init writes are policies, with and without their examples.
func TestTheFilesOfInitArePolicies(t *testing.T) {
	for _, strict := range []bool{false, true} {
		data := policy.DefaultFile(strict)
		p, err := policy.Parse("policy.yaml", data)
		if err != nil {
			t.Fatal(err)
		}
		medium, unmatched := runtime.EffectAllow, runtime.EffectAllow
		if strict {
			medium, unmatched = runtime.EffectAsk, runtime.EffectDeny
		}
		if v := p.Decide(question(t, "action=a.b risk=medium")); v.Effect != medium {
			t.Errorf("strict %t: medium is %s", strict, v.Effect)
		}
		if v := p.Decide(question(t, "action=net.pass risk=unmatched")); v.Effect != unmatched {
			t.Errorf("strict %t: unmatched is %s", strict, v.Effect)
		}
		_, examples, _ := strings.Cut(string(data), "# rules:\n")
		examples, _, _ = strings.Cut(examples, "# Fields of a match")
		used := strings.ReplaceAll("# rules:\n"+examples, "# ", "")
		used = strings.ReplaceAll(used, "#\n", "\n")
		if p, err = policy.Parse("policy.yaml", append(data, used...)); err != nil {
			t.Fatalf("the examples: %v", err)
		}
		if v := p.Decide(question(t, "action=net.pass risk=unmatched host=pastebin.com:443")); v.Rule != "no-pastebins" {
			t.Errorf("the examples do not hold: %+v", v)
		}
	}
}

func TestASwappedPolicyDecidesFromThenOn(t *testing.T) {
	l := policy.NewLive(policy.Set{runtime.DefaultTenant: policy.Default()})
	q := question(t, "action=a.b")
	if v := l.Decide(q); v.Effect != runtime.EffectAllow {
		t.Errorf("%+v", v)
	}
	p, err := policy.Parse("policy.yaml", []byte("version: 1\ndefaults: {low: deny}"))
	if err != nil {
		t.Fatal(err)
	}
	l.Swap(policy.Set{runtime.DefaultTenant: p})
	if v := l.Decide(q); v.Effect != runtime.EffectDeny || l.Current(runtime.DefaultTenant) != p {
		t.Errorf("%+v", v)
	}
	l.Swap(nil)
	if v := l.Decide(q); v.Effect != runtime.EffectDeny {
		t.Errorf("%+v", v)
	}
}

func TestEachTenantHasItsOwnPolicy(t *testing.T) {
	strict, err := policy.Parse("policy.yaml", []byte("version: 1\ndefaults: {low: deny}"))
	if err != nil {
		t.Fatal(err)
	}
	l := policy.NewLive(policy.Set{runtime.DefaultTenant: policy.Default(), "acme": strict})
	for tenant, want := range map[string]runtime.Effect{"default": runtime.EffectAllow, "acme": runtime.EffectDeny, "gone": runtime.EffectDeny, "": runtime.EffectDeny} {
		q := question(t, "action=a.b tenant="+tenant)
		v, steps := l.Decide(q), l.Explain(q)
		if v.Effect != want || steps[len(steps)-1].Effect != want {
			t.Errorf("%q: %+v, explained %+v", tenant, v, steps)
		}
	}
	if v := l.Decide(runtime.Question{}); v.Effect != runtime.EffectDeny {
		t.Errorf("nobody: %+v", v)
	}
}

// hundred is a policy of 100 rules of which the last matches the question.
func hundred(t testing.TB) (*policy.Policy, runtime.Question) {
	t.Helper()
	text := "version: 1\nrules:\n"
	forms := []string{`"svc%d.*"`, `svc%d.list`, `"*.delete-%d"`, `"svc%d.*-x-*"`}
	for i := range 99 {
		text += fmt.Sprintf("- {name: r%d, match: {action: %s, agent: [claude, \"ci-*\"]}, then: deny}\n", i, fmt.Sprintf(forms[i%4], i))
	}
	text += "- {name: last, match: {action: \"github.*\", host: api.github.com}, then: allow}\n"
	p, err := policy.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	q := runtime.Question{
		Principal: &runtime.Principal{Agent: "claude", Roles: []string{"dev"}},
		Action:    &runtime.Action{Ref: "github.list-pull-requests", Service: "github", Risk: runtime.RiskLow},
		Request:   &runtime.Request{Target: runtime.Target{Authority: "api.github.com:443", Method: "GET"}},
	}
	return p, q
}

func TestDecideAllocatesNothing(t *testing.T) {
	p, q := hundred(t)
	if v := p.Decide(q); v.Rule != "last" {
		t.Fatalf("%+v", v)
	}
	if n := testing.AllocsPerRun(100, func() { p.Decide(q) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDecide100Rules(b *testing.B) {
	p, q := hundred(b)
	b.ReportAllocs()
	for b.Loop() {
		p.Decide(q)
	}
}

func BenchmarkDecide100RulesOneCondition(b *testing.B) {
	text := "version: 1\nrules:\n- {name: c, match: {service: github}, when: 'args.owner == \"acme\" && principal.tenant == \"default\"', then: deny}\n"
	for i := range 99 {
		text += fmt.Sprintf("- {name: r%d, match: {action: \"svc%d.*\", agent: [claude, \"ci-*\"]}, then: deny}\n", i, i)
	}
	schema := declared("github.list-pull-requests owner:string")
	for name, match := range map[string]string{"typed": "{action: github.list-pull-requests}", "dynamic": "{service: github}"} {
		p, err := policy.Compile(schema, policy.File{Name: "p", Data: []byte(strings.Replace(text, "{service: github}", match, 1))})
		if err != nil {
			b.Fatal(err)
		}
		_, q := hundred(b)
		q.Args = runtime.Args{"owner": "other"}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if v := p.Decide(q); v.Failed {
					b.Fatal(v.Reason)
				}
			}
		})
	}
}

// The time that a question stays open is written in days too, and means what its hours do.
func TestExpiresIsReadInDays(t *testing.T) {
	digest := func(expires string) string {
		p, err := policy.Parse("policy.yaml", []byte("version: 1\nrules:\n- name: a\n  match: {}\n  then: require_approval\n  approval: {expires: "+expires+"}\n"))
		if err != nil {
			t.Fatalf("%s: %v", expires, err)
		}
		return p.Digest()
	}
	if digest("7d") != digest("168h") {
		t.Error("seven days are not 168 hours")
	}
	if _, err := policy.Parse("policy.yaml", []byte("version: 1\nrules:\n- name: a\n  match: {}\n  then: require_approval\n  approval: {expires: 8d}\n")); err == nil {
		t.Error("eight days were taken")
	}
}

// FuzzParse: any bytes are a policy with a digest, or problems with a place in
// the file; what is parsed answers, and critical needs the file's own word.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "version: 1", "version: 1\nrules: [{name: a, match: {}, then: allow}]", "a: *", "- &x [*x]", "version: 1\n---\n",
		"version: 1\nrules:\n- name: a\n  match: {host: '[::1]:443', risk: low}\n  then: require_approval\n  approval: {expires: 1m}\n",
		"%YAML 1.1\n---\n", "\ufeffversion: 1", "{{{", "? [a]\n: b", "version: 1\nmode: \x1b[2J", "!!binary x", "<<: {version: 1}", "\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := policy.Parse("policy.yaml", data)
		if err != nil {
			var problems policy.Problems
			if !errors.As(err, &problems) || len(problems) == 0 || p != nil {
				t.Fatalf("%v", err)
			}
			for _, problem := range problems {
				if problem.Line < 1 || problem.Column < 1 || problem.Msg == "" {
					t.Fatalf("%+v", problem)
				}
			}
			return
		}
		if len(p.Digest()) != 64 {
			t.Fatalf("digest %q", p.Digest())
		}
		v := p.Decide(question(t, "action=net.tunnel risk=critical"))
		if v.Effect == runtime.EffectAllow && !strings.Contains(string(data), "allow") && !strings.Contains(string(data), "report") {
			t.Fatalf("allowed by %s", v.Rule)
		}
	})
}
