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

// maxDeciders is the most people that one approval may need.
const maxDeciders = 10

// approval reads the terms of require_approval.
func (p *parser) approval(n *yaml.Node, r *ruleDocument) {
	terms := &r.terms
	var named *yaml.Node
	p.mapping(n, "approval", []string{"expires", "by", "count", "presence"}, func(key string, v *yaml.Node) {
		switch key {
		case "expires":
			p.expires(v, terms)
		case "count":
			if terms.Count = p.whole(v); terms.Count < 1 || terms.Count > maxDeciders {
				p.problem(v, "count: 1", "count is not a number of people from 1 to %d", maxDeciders)
				terms.Count = 0
			}
		case "by":
			p.by(v, terms)
			named = v
		case "presence":
			word, ok := v.Value, v.Kind == yaml.ScalarNode && v.ShortTag() != "!!null"
			if !ok {
				p.wrongKind(v, "presence", "text")
			}
			switch {
			case !ok:
			case word == "passkey": // nobody could show one, and so nobody decide
				p.problem(v, "presence: pin", "passkeys come with a later version of kimbap")
			case p.oneOf(v, "presence", word, []string{"none", "pin"}):
				terms.Presence = word
			}
		}
	})
	several := func(one string) bool { return strings.HasPrefix(one, "role:") || strings.HasPrefix(one, "group:") }
	if n := len(terms.By); n > 0 && n < terms.Count && !slices.ContainsFunc(terms.By, several) {
		p.problem(named, "by: [role:finance]", "count is %d, and by names %d who may decide", terms.Count, n)
	}
}

// by reads who may decide: one or a list of role:NAME, group:NAME and the ids
// of those who can be asked. For any other nobody would ever come.
func (p *parser) by(v *yaml.Node, terms *runtime.ApprovalTerms) {
	items := []*yaml.Node{v}
	if v.Kind == yaml.SequenceNode {
		if items = v.Content; len(items) == 0 {
			p.problem(v, "by: [role:finance]", "an empty list lets nobody decide")
		}
	}
	form := regexp.MustCompile(`^(?:(?:role|group|local|token):[A-Za-z0-9][A-Za-z0-9._@-]*|person:[a-z0-9][a-z0-9._-]*)$`)
	for _, item := range items {
		text, ok := p.word(item, "by")
		switch {
		case !ok:
		case !form.MatchString(text):
			p.problem(item, "by: [role:finance, group:leads, person:alice]", "%q is neither a role, a group nor a person", text)
		default:
			terms.By = append(terms.By, text)
		}
	}
}

func (p *parser) expires(v *yaml.Node, terms *runtime.ApprovalTerms) {
	if v.Kind == yaml.ScalarNode && v.ShortTag() == "!!int" {
		p.problem(v, fmt.Sprintf("expires: %sm", v.Value), "expires needs a unit")
		return
	}
	text, ok := p.word(v, "expires")
	if !ok {
		return
	}
	d, err := runtime.ParseSpan(text)
	if err != nil || d < time.Second || d > maxExpires {
		p.problem(v, "expires: 15m", "expires is not a duration from 1s to 168h")
		return
	}
	terms.Expires = d
}
