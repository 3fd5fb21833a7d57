package policy

import (
	"slices"

	"github.com/kimbap-run/kimbap/runtime"
)

// Loose is a pattern that none of the actions there are matches. It may be
// meant for a service that is not installed, or be misspelled.
type Loose struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Rule    string `json:"rule"`
	Pattern string `json:"pattern"`
}

// Loose lists the action patterns that match none of the references.
func (p *Policy) Loose(refs []string) []Loose {
	var out []Loose
	for i := range p.rules {
		r := &p.rules[i]
		for _, t := range r.match {
			if t.field != fieldAction {
				continue
			}
			for j := range t.patterns {
				if glob := t.patterns[j].glob; !slices.ContainsFunc(refs, func(ref string) bool { return runtime.Glob(glob).Match(ref) }) {
					out = append(out, Loose{File: r.file, Line: r.line, Rule: r.verdict.Rule, Pattern: string(glob)})
				}
			}
		}
	}
	return out
}

// Rules is how many rules the file has.
func (p *Policy) Rules() int { return len(p.rules) }
