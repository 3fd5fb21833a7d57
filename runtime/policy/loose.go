package policy

import (
	"slices"

	"github.com/kimbap-run/kimbap/runtime"
)

// Loose is a pattern that matches nothing there is, and where it stands. It may be
// meant for a service that is not installed, or be misspelled.
type Loose struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
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
		spots := r.spots
		for _, t := range r.match {
			here := spots[:len(t.patterns)]
			spots = spots[len(t.patterns):]
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
					out = append(out, Loose{
						File: r.file, Line: here[j].line, Column: here[j].column,
						Rule: r.verdict.Rule, Field: fieldNames()[t.field], Pattern: string(glob),
					})
				}
			}
		}
	}
	return out
}

// LooseIn is [Policy.Loose] of what can be read of files that have problems. No policy
// comes of such files, since it would decide by some of its rules only.
func LooseIn(refs, names []string, files ...File) []Loose {
	doc, _ := read(nil, files)
	return compile(doc).Loose(refs, names)
}

// Rules is how many rules the file has.
func (p *Policy) Rules() int { return len(p.rules) }
