package policy

import (
	"fmt"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// Step is one rule that was looked at, or at the end the default for the risk.
type Step struct {
	Rule    string         `json:"rule"`
	File    string         `json:"file,omitempty"` // of the rule; "" for a default
	Line    int            `json:"line,omitempty"` // in the file; 0 for a default
	Effect  runtime.Effect `json:"effect,omitempty"`
	Matched bool           `json:"matched"`
	Lifted  bool           `json:"lifted,omitempty"` // matched, but mode: report lets it pass
	Why     string         `json:"why"`              // one clause for a person
}

// Explain shows every rule that [Policy.Decide] looks at for the question, in
// order, and why each did or did not match. The last step decides.
func (p *Policy) Explain(q runtime.Question) []Step {
	steps := []Step{}
	p.decide(&q, &steps)
	return steps
}

// step tells what became of one rule.
func (r *rule) step(f *facts, found finding, lifted bool) Step {
	s := Step{
		Rule: r.verdict.Rule, File: r.file, Line: r.line, Effect: r.verdict.Effect,
		Matched: found.holds() || found.ends(), Lifted: lifted,
	}
	if found.failed != matched {
		s.Why = r.match.whyNot(f, found.failed)
		return s
	}
	s.Why = r.match.why(f)
	if r.when != nil {
		s.Why += "; when " + r.shown() + " " + found.said()
	}
	switch {
	case found.ends():
		s.Effect = r.stopped(found).Effect
	case found.holds() && found.unseen:
		s.Effect = r.answer(found).Effect
		s.Why += "; " + opaqueReason
	}
	if found.holds() && !found.unseen && r.limit != nil {
		s.Why += "; " + r.limit.String()
	}
	if lifted {
		s.Why += "; mode: report lets it pass"
	}
	return s
}

// shown is the condition on one line.
func (r *rule) shown() string {
	text := strings.Join(strings.Fields(r.written), " ")
	if runes := []rune(text); len(runes) > excerptWidth {
		text = string(runes[:excerptWidth]) + "…"
	}
	return text
}

// defaultStep is the last step when no rule decided.
func defaultStep(v runtime.Verdict) Step {
	return Step{Rule: v.Rule, Effect: v.Effect, Matched: true, Why: "no rule of the file decides"}
}

func (m match) why(f *facts) string {
	if len(m) == 0 {
		return "match: {} matches everything"
	}
	var said []string
	for i := range m {
		if m[i].field == fieldMethod && !m[i].holds(f) { // of a tunnel, where none is seen
			said = append(said, "a method may be "+m[i].list())
			continue
		}
		said = append(said, fmt.Sprintf("%s %s matches %s", fieldNames()[m[i].field], f.show(m[i].field), m[i].list()))
	}
	return strings.Join(said, ", ")
}

func (m match) whyNot(f *facts, failed field) string {
	for i := range m {
		if m[i].field == failed {
			return fmt.Sprintf("%s %s does not match %s", fieldNames()[failed], f.show(failed), m[i].list())
		}
	}
	return ""
}

// list shows the patterns as a file would.
func (c *test) list() string {
	quoted := make([]string, len(c.patterns))
	for i := range c.patterns {
		quoted[i] = fmt.Sprintf("%q", string(c.patterns[i].glob))
	}
	if len(quoted) == 1 {
		return quoted[0]
	}
	return "any of " + strings.Join(quoted, ", ")
}

func (f *facts) show(which field) string {
	switch which {
	case fieldRole:
		return fmt.Sprintf("%q", f.roles)
	case fieldGroup:
		return fmt.Sprintf("%q", f.groups)
	}
	return fmt.Sprintf("%q", f.values[which])
}
