package policy

import (
	"slices"

	"github.com/kimbap-run/kimbap/runtime"
)

// Loose is a pattern that matches nothing there is. It may be meant for a service
// that is not installed, or be misspelled.
type Loose struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Rule    string `json:"rule"`
	Field   string `json:"field"` // action or service
	Pattern string `json:"pattern"`
}

// Loose lists the patterns of actions that match none of the references, and
// those of services that match none of the names.
func (p *Policy) Loose(refs, names []string) []Loose {
	var out []Loose
	for i := range p.rules {
		r := &p.rules[i]
		for _, t := range r.match {
			there := names
			switch t.field {
			case fieldAction:
				there = refs
			case fieldService:
			default:
				continue
			}
			for j := range t.patterns {
				if glob := t.patterns[j].glob; !slices.ContainsFunc(there, func(one string) bool { return runtime.Glob(glob).Match(one) }) {
					out = append(out, Loose{File: r.file, Line: r.line, Rule: r.verdict.Rule, Field: fieldNames()[t.field], Pattern: string(glob)})
				}
			}
		}
	}
	return out
}

// Rules is how many rules the file has.
func (p *Policy) Rules() int { return len(p.rules) }
