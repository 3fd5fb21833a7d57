package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// Exactly are values of one request that a rule is narrowed to; "" is none.
type Exactly struct{ Action, Agent, Host, Method string }

// Allowing writes a rule called name that allows requests like one that the rule asked decided: what
// that rule is about, by its match and its condition, narrowed to the values. Right before it the
// new rule answers nothing but what that one would have; what rules below it deny or ask more
// people about, they go on deciding. Of a default the values are all there is. False is where the
// rule that asked is there no more: what it was about is not known.
func (p *Policy) Allowing(asked, name string, to Exactly) (written string, known bool) {
	exactly := map[field]string{fieldAction: to.Action, fieldAgent: to.Agent, fieldHost: to.Host, fieldMethod: to.Method}
	var r rule
	at := slices.IndexFunc(p.rules, func(r rule) bool { return r.verdict.Rule == asked })
	switch {
	case at >= 0:
		r = p.rules[at]
	case !strings.HasPrefix(asked, runtime.RuleDefault):
		return "", false
	}
	when := r.written
	if when != "" && !r.match.is(fieldAction, to.Action) { // on one action alone its arguments would have to be declared
		when = fmt.Sprintf("action.name == %s && (%s\n)", quoted(to.Action), when)
		delete(exactly, fieldAction)
	}
	rest := []string{"name: " + name, "match: {" + strings.Join(r.match.narrowed(exactly), ", ") + "}"}
	if when != "" {
		rest = append(rest, "when: "+quoted(when))
	}
	if r.limit != nil {
		rest = append(rest, "limit: "+r.limit.yaml())
	}
	return "{" + strings.Join(append(rest, "then: allow"), ", ") + "}", true
}

// is reports whether the match names one value of a field.
func (m match) is(which field, value string) bool {
	return slices.ContainsFunc(m, func(t test) bool {
		return t.field == which && len(t.patterns) == 1 && t.patterns[0].form == formLiteral && t.patterns[0].text == value
	})
}

// narrowed are the tests of a match as a file writes them, with some fields held to one value.
func (m match) narrowed(to map[field]string) (written []string) {
	for _, which := range [...]field{fieldAction, fieldAgent, fieldHost, fieldMethod, fieldService, fieldRisk, fieldRole, fieldGroup, fieldSurface, fieldTenant} {
		name := fieldNames()[which]
		if value := to[which]; value != "" {
			written = append(written, name+": "+quoted(value))
			continue
		}
		for i := range m {
			if m[i].field == which {
				written = append(written, name+": "+m[i].yaml())
			}
		}
	}
	return written
}

// yaml is the list of patterns as a file writes it.
func (c *test) yaml() string {
	list := make([]string, len(c.patterns))
	for i := range c.patterns {
		list[i] = quoted(string(c.patterns[i].glob))
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// quoted is a text in JSON, which is YAML.
func quoted(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // a person reads it
	_ = e.Encode(text)
	return strings.TrimSuffix(b.String(), "\n")
}
