package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/runtime"
)

// maxExpires is the longest an approval may stay open.
const maxExpires = 7 * 24 * time.Hour

// rule reads one rule and returns the node of its name, nil when it has none.
func (p *parser) rule(n *yaml.Node) (r ruleDocument, name *yaml.Node) {
	r.line = n.Line
	known := []string{"name", "match", "then", "reason", "approval", "when", "limit"}
	seen := p.mapping(n, "a rule", known, func(key string, v *yaml.Node) {
		switch key {
		case "name":
			if p.ruleName(v, &r) {
				name = v
			}
		case "match":
			p.match(v, &r)
		case "then":
			r.then, _ = p.effect(v, "then")
		case "reason":
			r.reason = p.reason(v)
		case "approval":
			p.approval(v, &r)
		}
	})
	if seen == nil {
		return r, nil
	}
	for _, later := range []string{"when", "limit"} {
		if key := seen[later]; key != nil {
			p.problem(key, "take the rule out until then: without its "+later+" it would mean something else",
				"%s comes with a later version of kimbap", later)
		}
	}
	for _, need := range []struct{ key, fix string }{
		{"name", "name: what-it-is-for"},
		{"match", "match: {action: \"service.*\"}, or match: {} for everything"},
		{"then", "then: allow, deny or require_approval"},
	} {
		if seen[need.key] == nil && (need.key != "then" || seen["limit"] == nil) {
			p.problem(n, need.fix, "the rule has no %s", need.key)
		}
	}
	if key := seen["approval"]; key != nil && r.then != "" && r.then != runtime.EffectAsk {
		p.problem(key, "write then: require_approval, or leave approval out", "approval says nothing in a rule with then: %s", r.then)
	}
	return r, name
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
	if text == "scope" {
		p.problem(v, "choose another name", "the name \"scope\" is what refusals by a token's scopes are called")
		return false
	}
	r.name = text
	return true
}

// match reads the conditions.
func (p *parser) match(n *yaml.Node, r *ruleDocument) {
	names := fieldNames()
	p.mapping(n, "match", names[:], func(key string, v *yaml.Node) {
		which := field(slices.Index(names[:], key))
		if v.Kind != yaml.SequenceNode {
			r.match[which] = p.glob(v, which, nil)
			return
		}
		if len(v.Content) == 0 {
			p.problem(v, "name at least one pattern, or leave "+key+" out", "an empty list matches nothing")
		}
		for _, item := range v.Content {
			r.match[which] = p.glob(item, which, r.match[which])
		}
	})
}

// glob reads one pattern and appends it to list.
func (p *parser) glob(v *yaml.Node, which field, list []string) []string {
	text, ok := p.word(v, fieldNames()[which])
	if !ok {
		return list
	}
	text, msg, fix := checkGlob(which, text)
	if msg != "" {
		p.problem(v, fix, "%s", msg)
		return list
	}
	return append(list, text)
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

// approval reads the terms of require_approval.
func (p *parser) approval(n *yaml.Node, r *ruleDocument) {
	seen := p.mapping(n, "approval", []string{"expires", "by", "count"}, func(key string, v *yaml.Node) {
		switch key {
		case "expires":
			p.expires(v, r)
		case "count":
			switch {
			case v.ShortTag() != "!!int" || strings.Trim(v.Value, "0123456789") != "" || strings.Trim(v.Value, "0") == "":
				p.problem(v, "count: 1", "count is not a number of people")
			case v.Value != "1":
				p.problem(v, "count: 1", "approval by several people comes with a later version of kimbap")
			}
		}
	})
	if by := seen["by"]; by != nil {
		p.problem(by, "leave by out: every operator may decide", "choosing who may approve comes with a later version of kimbap")
	}
}

func (p *parser) expires(v *yaml.Node, r *ruleDocument) {
	if v.Kind == yaml.ScalarNode && v.ShortTag() == "!!int" {
		p.problem(v, fmt.Sprintf("expires: %sm", v.Value), "expires needs a unit")
		return
	}
	text, ok := p.word(v, "expires")
	if !ok {
		return
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d > maxExpires {
		p.problem(v, "expires: 15m", "expires is not a duration from 1s to 168h")
		return
	}
	r.expires = d
}
