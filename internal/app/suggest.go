package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
)

// Suggestion is the least that lets agents do what they were seen doing.
type Suggestion struct {
	Policy   string             `json:"policy"` // a file
	Scopes   map[string][]Scope `json:"scopes"` // of tokens, by agent
	Requests int                `json:"requests"`
	Kept     int                `json:"kept"`  // let through then, and by the suggestion
	Wider    []Change           `json:"wider"` // denied then, and let through by the suggestion
}

// Scope is a scope of a token.
type Scope = runtime.Scope

// doer is one agent of one tenant.
type doer struct {
	tenant runtime.Tenant
	agent  string
}

// deeds are what an agent was let do: actions by their effect, hosts without a
// service.
type deeds struct {
	actions map[runtime.Effect]map[runtime.Ref]bool
	hosts   map[runtime.Ref]map[string]bool
}

// Suggest writes rules for what was let through, and proves them: every request
// that was let through is judged by them as it was then. When that fails, it is
// an error and there is no suggestion.
func (a *App) Suggest(ctx context.Context, q ReplayQuery) (*Suggestion, error) {
	seen, requests := map[doer]*deeds{}, 0
	err := a.judged(ctx, q, func(r *recorded) {
		requests++
		who := doer{r.Tenant, r.Agent}
		if seen[who] == nil {
			seen[who] = &deeds{map[runtime.Effect]map[runtime.Ref]bool{}, map[runtime.Ref]map[string]bool{}}
		}
		seen[who].add(r)
	})
	if err != nil {
		return nil, err
	}
	if requests == 0 {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound,
			Msg: "the trail has no request of that time and agent", Hint: "kimbap audit tail",
		}
	}
	s := &Suggestion{Requests: requests, Scopes: map[string][]Scope{}, Wider: []Change{}}
	var b strings.Builder
	fmt.Fprintf(&b, "# Suggested from %d recorded requests. What is not named is denied to these\n# agents; what was asked of a person then is still asked.\nversion: 1\nrules:\n", requests)
	who := slices.SortedFunc(maps.Keys(seen), func(a, b doer) int {
		return strings.Compare(string(a.tenant)+"\x00"+a.agent, string(b.tenant)+"\x00"+b.agent)
	})
	for _, w := range who {
		seen[w].write(&b, w)
		s.Scopes[w.agent] = append(s.Scopes[w.agent], seen[w].scopes()...)
	}
	s.Policy = b.String()
	return s, a.prove(ctx, s, q)
}

// add notes a request that was let through, or was asked about.
func (d *deeds) add(r *recorded) {
	if r.Effect != runtime.EffectAllow && r.Effect != runtime.EffectAsk {
		return
	}
	if r.Action == runtime.ActionPass || r.Action == runtime.ActionTunnel {
		if r.Effect == runtime.EffectAllow {
			if d.hosts[r.Action] == nil {
				d.hosts[r.Action] = map[string]bool{}
			}
			d.hosts[r.Action][r.Host] = true
			return
		}
	}
	if d.actions[r.Effect] == nil {
		d.actions[r.Effect] = map[runtime.Ref]bool{}
	}
	d.actions[r.Effect][r.Action] = true
}

// write writes the rules of one agent, the stricter effect first: an action that
// was asked about at times is asked about.
func (d *deeds) write(b *strings.Builder, w doer) {
	whose := "agent: " + strconv.Quote(w.agent)
	prefix := ruleName(w.agent)
	if w.tenant != runtime.DefaultTenant {
		whose += ", tenant: " + strconv.Quote(string(w.tenant))
		prefix = ruleName(string(w.tenant)) + "." + prefix
	}
	rule := func(name, match string, then runtime.Effect) {
		fmt.Fprintf(b, "  - name: %s\n    match: {%s%s}\n    then: %s\n", prefix+"-"+name, whose, match, then)
	}
	for _, effect := range []struct {
		of   runtime.Effect
		name string
	}{{runtime.EffectAsk, "asks"}, {runtime.EffectAllow, "does"}} {
		if refs := d.actions[effect.of]; len(refs) > 0 {
			rule(effect.name, ", action: "+flow(refs), effect.of)
		}
	}
	for _, ref := range slices.Sorted(maps.Keys(d.hosts)) {
		rule(ruleName(string(ref)), ", action: "+string(ref)+", host: "+flow(d.hosts[ref]), runtime.EffectAllow)
	}
	rule("nothing-else", "", runtime.EffectDeny)
}

// scopes are the actions that a token of the agent needs.
func (d *deeds) scopes() []Scope {
	all := map[Scope]bool{}
	for _, refs := range d.actions {
		for ref := range refs {
			all[Scope(ref)] = true
		}
	}
	for ref := range d.hosts {
		all[Scope(ref)] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// flow writes a set as a list of YAML.
func flow[T ~string](set map[T]bool) string {
	var quoted []string
	for _, item := range slices.Sorted(maps.Keys(set)) {
		quoted = append(quoted, strconv.Quote(string(item)))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// ruleName makes a name of what may hold other characters.
func ruleName(text string) string {
	name := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-' {
			return c
		}
		return '_'
	}, text)
	if name == "" || !(name[0] >= '0' && name[0] <= '9' || name[0] >= 'a' && name[0] <= 'z' || name[0] >= 'A' && name[0] <= 'Z') {
		name = "x" + name
	}
	return name[:min(len(name), 40)]
}

// prove replays the requests against the suggestion.
func (a *App) prove(ctx context.Context, s *Suggestion, q ReplayQuery) error {
	set, err := a.draftServices()
	if err != nil {
		return err
	}
	d := &Draft{set: set, clock: a.o.Clock}
	if d.policy, err = policy.Compile(set, policy.File{Name: "suggested", Data: []byte(s.Policy)}); err != nil {
		return err
	}
	var lost *recorded
	err = a.judged(ctx, q, func(r *recorded) {
		verdict := d.again(r)
		passed := r.Effect == runtime.EffectAllow || r.Effect == runtime.EffectAsk
		covered := slices.ContainsFunc(s.Scopes[r.Agent], func(scope Scope) bool { return scope.Match(string(r.Action)) })
		switch {
		case passed && covered && (verdict.Effect == r.Effect || verdict.Effect == runtime.EffectAsk):
			s.Kept++
		case passed:
			lost = r
		case verdict.Effect != runtime.EffectDeny:
			s.Wider = append(s.Wider, Change{
				ID: r.ID, Time: r.Time, Agent: r.Agent, Action: r.Action, Host: r.Host,
				Was: r.Effect, By: r.Rule, Now: verdict.Effect, NowBy: verdict.Rule,
			})
		}
	})
	if err == nil && lost != nil {
		err = fmt.Errorf("the suggestion would refuse request %s (%s by %s), which was let through", lost.ID, lost.Action, lost.Agent)
	}
	return err
}
