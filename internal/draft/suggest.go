package draft

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
	"github.com/kimbap-run/kimbap/services"
)

// Suggestion is the least that lets agents do what they were seen doing.
type Suggestion struct {
	Policy   string                     `json:"policy"` // a file
	Scopes   map[string][]runtime.Scope `json:"scopes"` // of tokens, by agent
	Requests int                        `json:"requests"`
	Kept     int                        `json:"kept"`     // let through or asked about then, and the same by the suggestion
	Stricter []Rejudged                 `json:"stricter"` // let through then, and asked about by the suggestion
	Wider    []Rejudged                 `json:"wider"`    // denied then, and let through by the suggestion
}

// deed is one action; for a host without a service, to that host.
type deed struct {
	action runtime.Ref
	host   string
}

// deeds are what an agent was let do, and for each the rules that asked about it.
type deeds map[deed]*seen

// seen is how a deed was judged.
type seen struct {
	allowed bool
	asked   map[string]bool // by rule
}

// Suggest writes rules for what was let through or asked about. The trail does not
// tell why an action was asked about only at times; that action is asked about
// always. Nothing is said of requests that were not made. What the suggestion would
// have said of the requests is what [Suggestion.Check] finds out.
func Suggest(records Records) (*Suggestion, error) {
	agents, requests := map[string]deeds{}, 0
	err := judged(records, func(r *recorded) {
		requests++
		if agents[r.Agent] == nil {
			agents[r.Agent] = deeds{}
		}
		agents[r.Agent].add(r)
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
	s := &Suggestion{Requests: requests, Scopes: map[string][]runtime.Scope{}, Stricter: []Rejudged{}, Wider: []Rejudged{}}
	var b strings.Builder
	fmt.Fprintf(&b, "# Suggested from %d recorded requests. What is not named is denied to these\n# agents; what was asked of a person then is still asked.\nversion: 1\nrules:\n", requests)
	taken := map[string]bool{}
	for _, agent := range slices.Sorted(maps.Keys(agents)) {
		agents[agent].write(&b, agent, freeName(ruleName(agent), taken))
		s.Scopes[agent] = agents[agent].scopes()
	}
	s.Policy = b.String()
	return s, nil
}

// add notes a request that was let through, or was asked about.
func (d deeds) add(r *recorded) {
	if r.Effect != runtime.EffectAllow && r.Effect != runtime.EffectAsk {
		return
	}
	what := deed{action: r.Action}
	if r.Action.Foreign() {
		what.host = r.Host
	}
	if d[what] == nil {
		d[what] = &seen{asked: map[string]bool{}}
	}
	if r.Effect == runtime.EffectAllow {
		d[what].allowed = true
	} else {
		d[what].asked[r.Rule] = true
	}
}

// write writes the rules of one agent. A deed is in one of them only, so that but
// for the last one their order says nothing.
func (d deeds) write(b *strings.Builder, agent, prefix string) {
	rule := func(name, note, match string, then runtime.Effect) {
		if note != "" {
			fmt.Fprintf(b, "  # %s\n", note)
		}
		fmt.Fprintf(b, "  - name: %s\n    match: {agent: %s%s}\n    then: %s\n", prefix+"-"+name, strconv.Quote(agent), match, then)
	}
	for _, part := range []struct {
		name string
		then runtime.Effect
		of   func(*seen) bool
	}{
		{"does", runtime.EffectAllow, func(s *seen) bool { return len(s.asked) == 0 }},
		{"asks", runtime.EffectAsk, func(s *seen) bool { return !s.allowed }},
		{"asks-at-times", runtime.EffectAsk, func(s *seen) bool { return s.allowed && len(s.asked) > 0 }},
	} {
		actions, hosts, by := d.those(part.of)
		note := ""
		if part.name == "asks-at-times" {
			note = "Was asked about at times only, by " + by + ", and is always here:\n  # add the condition of that rule, which the trail does not hold."
		}
		if len(actions) > 0 {
			rule(part.name, note, ", action: "+flow(actions), part.then)
		}
		for _, ref := range slices.Sorted(maps.Keys(hosts)) {
			rule(part.name+"-"+ruleName(string(ref)), note, ", action: "+string(ref)+", host: "+flow(hosts[ref]), part.then)
		}
	}
	rule("nothing-else", "", "", runtime.EffectDeny)
}

// those are the deeds of one kind: the actions of services, the hosts of others,
// and the rules that asked.
func (d deeds) those(kind func(*seen) bool) (actions map[runtime.Ref]bool, hosts map[runtime.Ref]map[string]bool, by string) {
	actions, hosts = map[runtime.Ref]bool{}, map[runtime.Ref]map[string]bool{}
	rules := map[string]bool{}
	for what, how := range d {
		if !kind(how) {
			continue
		}
		maps.Copy(rules, how.asked)
		if what.host == "" {
			actions[what.action] = true
			continue
		}
		if hosts[what.action] == nil {
			hosts[what.action] = map[string]bool{}
		}
		hosts[what.action][what.host] = true
	}
	return actions, hosts, strings.Join(slices.Sorted(maps.Keys(rules)), ", ")
}

// scopes are the actions that a token of the agent needs.
func (d deeds) scopes() []runtime.Scope {
	all := map[runtime.Scope]bool{}
	for what := range d {
		all[runtime.Scope(what.action)] = true
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

// freeName is the name, with a number where another agent's rules have it: of long names,
// and of odd ones, the same may be left.
func freeName(name string, taken map[string]bool) string {
	free := name
	for n := 2; taken[free]; n++ {
		free = name + "-" + strconv.Itoa(n)
	}
	taken[free] = true
	return free
}

// Check replays the requests against the suggestion: what was let through must not
// be denied, or it is an error and there is no suggestion. Requests that passed
// unasked and are asked about now are listed as Stricter.
func (s *Suggestion) Check(records Records, set *services.Set) error {
	d := &Policy{set: set}
	var err error
	if d.policy, err = policy.Compile(set, policy.File{Name: "suggested", Data: []byte(s.Policy)}); err != nil {
		return err
	}
	var lost *recorded
	err = judged(records, func(r *recorded) {
		verdict := d.policy.Decide(d.asked(r)) // what else it may be to some server is not in the suggestion
		passed := r.Effect == runtime.EffectAllow || r.Effect == runtime.EffectAsk
		covered := slices.ContainsFunc(s.Scopes[r.Agent], func(scope runtime.Scope) bool { return scope.Match(string(r.Action)) })
		now := Rejudged{
			ID: r.ID, Time: r.Time, Agent: r.Agent, Action: r.Action, Host: r.Host,
			Was: r.Effect, By: r.Rule, Now: verdict.Effect, NowBy: verdict.Rule,
		}
		switch {
		case passed && covered && verdict.Effect == r.Effect:
			s.Kept++
		case passed && covered && verdict.Effect == runtime.EffectAsk:
			s.Stricter = append(s.Stricter, now)
		case passed:
			lost = r
		case verdict.Effect != runtime.EffectDeny:
			s.Wider = append(s.Wider, now)
		}
	})
	if err == nil && lost != nil {
		err = fmt.Errorf("the suggestion would refuse request %s (%s by %s), which was let through", lost.ID, lost.Action, lost.Agent)
	}
	return err
}
