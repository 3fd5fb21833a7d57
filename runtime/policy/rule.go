package policy

import (
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/runtime"
)

// rule reads one rule and returns the node of its name, nil when it has none.
func (p *parser) rule(n *yaml.Node) (r ruleDocument, name *yaml.Node) {
	r.file, r.line = p.file, n.Line
	known := []string{"name", "match", "then", "reason", "approval", "when", "limit"}
	var when *yaml.Node
	seen := p.mapping(n, "a rule", known, func(key string, v *yaml.Node) {
		switch key {
		case "name":
			if p.ruleName(v, &r) {
				name = v
			}
		case "match":
			p.match(v, &r)
		case "when":
			when = v
		case "then":
			r.then, _ = p.effect(v, "then")
		case "reason":
			r.reason = p.reason(v)
		case "approval":
			p.approval(v, &r)
		case "limit":
			p.limit(v, &r)
		}
	})
	if seen == nil {
		return r, nil
	}
	if when != nil { // after match, which may name the action it is checked against
		p.when(when, &r)
	}
	p.complete(n, seen, &r)
	return r, name
}

// complete refuses a rule that lacks something, or says what has no meaning.
func (p *parser) complete(n *yaml.Node, seen map[string]*yaml.Node, r *ruleDocument) {
	for _, need := range []struct{ key, fix string }{
		{"name", "name: what-it-is-for"},
		{"match", "match: {action: \"service.*\"}, or match: {} for everything"},
		{"then", "then: allow, deny or require_approval"},
	} {
		if seen[need.key] == nil && (need.key != "then" || seen["limit"] == nil) {
			p.problemOf(need.key, n, need.fix, "the rule has no %s", need.key)
		}
	}
	if key := seen["approval"]; key != nil && (r.then == runtime.EffectAllow || r.then == runtime.EffectDeny) {
		p.problem(key, "write then: require_approval, or leave approval out", "approval says nothing in a rule with then: %s", r.then)
	} else if key != nil && seen["then"] == nil && seen["limit"] != nil {
		p.problem(key, "add then: require_approval, or leave approval out", "approval says nothing in a rule without then")
	}
	if key := seen["limit"]; key != nil && r.then == runtime.EffectDeny {
		p.problem(key, "leave limit out", "limit says nothing in a rule with then: deny")
	}
}

// ruleName reads the name. "scope" is what a verdict says when the token's
// scopes decided, and ":" separates "default:" from a risk.
func (p *parser) ruleName(v *yaml.Node, r *ruleDocument) bool {
	text, ok := p.word(v, "name")
	if !ok {
		return false
	}
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`).MatchString(text) {
		p.problem(v, "name: no-deletes-in-production", "a rule's name is 1 to 100 letters, digits, \".\", \"_\" and \"-\"")
		return false
	}
	if text == runtime.RuleScope {
		p.problem(v, "choose another name", "the name \"scope\" is what refusals by a token's scopes are called")
		return false
	}
	r.name = text
	return true
}

// match reads the tests.
func (p *parser) match(n *yaml.Node, r *ruleDocument) {
	names := fieldNames()
	p.mapping(n, "match", names[:], func(key string, v *yaml.Node) {
		which := field(slices.Index(names[:], key))
		if v.Kind != yaml.SequenceNode {
			p.glob(v, which, r)
			return
		}
		if len(v.Content) == 0 {
			p.problem(v, "name at least one pattern, or leave "+key+" out", "an empty list matches nothing")
		}
		for _, item := range v.Content {
			p.glob(item, which, r)
		}
	})
}

// glob reads one pattern into the rule.
func (p *parser) glob(v *yaml.Node, which field, r *ruleDocument) {
	text, ok := p.word(v, fieldNames()[which])
	if !ok {
		return
	}
	text, msg, fix := checkGlob(which, text)
	if msg != "" {
		p.problem(v, fix, "%s", msg)
		return
	}
	r.match[which] = append(r.match[which], text)
	r.spots[which] = append(r.spots[which], spot{v.Line, v.Column})
}

// reason reads the words that the caller is shown.
func (p *parser) reason(v *yaml.Node) string {
	text, ok := p.text(v, "reason")
	text = strings.TrimSpace(text)
	if ok && (len(text) > 500 || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f })) {
		p.problem(v, "use > instead of | for several lines", "a reason is one line of at most 500 bytes")
	}
	return text
}
