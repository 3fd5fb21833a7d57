package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy/condition"
)

// document is a policy file as written, checked but not compiled.
type document struct {
	defaults map[runtime.Risk]runtime.Effect
	rules    []ruleDocument
	report   bool
}

// ruleDocument is one rule as written.
type ruleDocument struct {
	name   string
	file   string
	line   int
	match  [fields][]string
	spots  [fields][]spot // where each pattern of match stands
	when   string
	holds  *condition.Condition // when, compiled; nil: none
	limit  *limit               // nil: none
	then   runtime.Effect
	reason string
	terms  runtime.ApprovalTerms
}

// spot is a place in a rule's file, both from 1.
type spot struct{ line, column int }

// risks are the keys of defaults, in the order of the file.
func risks() []runtime.Risk {
	return []runtime.Risk{
		runtime.RiskLow, runtime.RiskMedium, runtime.RiskHigh, runtime.RiskCritical, runtime.RiskUnmatched,
	}
}

func surfaces() []runtime.Surface {
	return []runtime.Surface{
		runtime.SurfaceProxy, runtime.SurfaceCall, runtime.SurfaceExec, runtime.SurfaceREST, runtime.SurfaceMCP,
	}
}

// newDocument is an empty file with the built-in defaults.
func newDocument() document {
	return document{defaults: map[runtime.Risk]runtime.Effect{
		runtime.RiskLow:       runtime.EffectAllow,
		runtime.RiskMedium:    runtime.EffectAllow,
		runtime.RiskHigh:      runtime.EffectAsk,
		runtime.RiskCritical:  runtime.EffectDeny,
		runtime.RiskUnmatched: runtime.EffectAllow,
	}}
}

// compile makes a checked document fast. All verdicts are made here.
func compile(doc document) *Policy {
	p := &Policy{
		report:   doc.report,
		digest:   doc.digest(),
		defaults: make(map[runtime.Risk]runtime.Verdict, len(doc.defaults)),
	}
	for risk, effect := range doc.defaults {
		p.defaults[risk] = runtime.Verdict{Effect: effect, Rule: runtime.RuleDefault + string(risk), Digest: p.digest}
	}
	for _, written := range doc.rules {
		r := rule{
			file: written.file, line: written.line, when: written.holds, written: written.when, limit: written.limit,
			verdict: runtime.Verdict{
				Effect: written.then, Rule: written.name, Reason: written.reason, Digest: p.digest, Terms: written.terms,
			},
		}
		for which, globs := range written.match {
			if len(globs) == 0 {
				continue
			}
			c := test{field: field(which)}
			for _, glob := range globs {
				c.patterns = append(c.patterns, newPattern(glob))
			}
			r.spots = append(r.spots, written.spots[which]...)
			r.match = append(r.match, c)
		}
		p.rules = append(p.rules, r)
	}
	return p
}

// digest is over every word that has a meaning, each with its length before
// it, so that no two documents share an encoding.
func (d *document) digest() string {
	var b []byte
	say := func(words ...string) {
		for _, w := range words {
			b = binary.AppendUvarint(b, uint64(len(w)))
			b = append(b, w...)
		}
	}
	say("kimbap policy 1", strconv.FormatBool(d.report))
	for _, risk := range risks() {
		say(string(risk), string(d.defaults[risk]))
	}
	for i := range d.rules {
		r := &d.rules[i]
		say("rule", r.name, string(r.then), r.reason, r.when, r.limit.String())
		say(r.terms.Expires.String(), strconv.Itoa(r.terms.Count), r.terms.Presence, strconv.Itoa(len(r.terms.By)))
		say(r.terms.By...)
		for which, globs := range r.match {
			sorted := slices.Clone(globs)
			slices.Sort(sorted)
			sorted = slices.Compact(sorted)
			say(fieldNames()[which], strconv.Itoa(len(sorted)))
			say(sorted...)
		}
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
