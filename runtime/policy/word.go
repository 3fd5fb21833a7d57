package policy

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/runtime"
)

// mapping calls visit for every known key with a value and returns the nodes
// of the keys it saw, nil when n is no mapping.
func (p *parser) mapping(n *yaml.Node, what string, known []string, visit func(key string, v *yaml.Node)) map[string]*yaml.Node {
	if n.Kind != yaml.MappingNode {
		p.wrongKind(n, what, "fields with values")
		return nil
	}
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch first := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			p.problem(key, "", "a field of %s must be a word", what)
		case first != nil:
			p.problem(key, "keep one of them", "%s is already in line %d", key.Value, first.Line)
		case !slices.Contains(known, key.Value):
			p.unknown(key, what, known)
		default:
			seen[key.Value] = key
			visit(key.Value, value)
		}
	}
	return seen
}

func (p *parser) unknown(key *yaml.Node, what string, known []string) {
	fix := "the fields are " + strings.Join(known, ", ")
	if near := closest(key.Value, known); near != "" {
		fix = "did you mean " + near + "?"
	}
	p.problemOf(key.Value, key, fix, "%s has no field %q", what, key.Value)
}

// wrongKind says what stands where a scalar, list or mapping should; what the
// walk over the whole tree has said already is not said again.
func (p *parser) wrongKind(n *yaml.Node, what, want string) {
	switch {
	case n.Kind == yaml.AliasNode:
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
		p.problem(n, "", "%s has no value; it must be %s", what, want)
	default:
		p.problem(n, "", "%s must be %s", what, want)
	}
}

// text reads a string as YAML understands it.
func (p *parser) text(n *yaml.Node, what string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		p.wrongKind(n, what, "text")
		return "", false
	}
	if tag := n.ShortTag(); tag != "!!str" {
		p.problem(n, fmt.Sprintf("quote it: %q", n.Value), "%s must be text, but YAML reads %s as %s", what, n.Value, kindOf(tag))
		return "", false
	}
	return n.Value, true
}

// word reads a string that no YAML version takes for a boolean.
func (p *parser) word(n *yaml.Node, what string) (string, bool) {
	text, ok := p.text(n, what)
	if !ok {
		return "", false
	}
	if n.Style == 0 {
		switch strings.ToLower(text) {
		case "yes", "no", "on", "off", "y", "n":
			p.problem(n, fmt.Sprintf("quote it if it is a name: %q", text), "%s: some YAML readers take %s for true or false", what, text)
			return "", false
		}
	}
	return text, true
}

func kindOf(tag string) string {
	switch tag {
	case "!!bool":
		return "true or false"
	case "!!int", "!!float":
		return "a number"
	case "!!timestamp":
		return "a date"
	default:
		return "something else (" + tag + ")"
	}
}

// oneOf notes a problem unless the word is one of the known ones.
func (p *parser) oneOf(n *yaml.Node, what, word string, known []string) bool {
	if slices.Contains(known, word) {
		return true
	}
	fix := what + " is one of " + strings.Join(known, ", ")
	if near := closest(word, known); near != "" {
		fix = "did you mean " + near + "?"
	}
	p.problemOf(what, n, fix, "%s cannot be %q", what, word)
	return false
}

// effect reads allow, deny or require_approval.
func (p *parser) effect(n *yaml.Node, what string) (runtime.Effect, bool) {
	known := []string{string(runtime.EffectAllow), string(runtime.EffectDeny), string(runtime.EffectAsk)}
	if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!str" && n.ShortTag() != "!!null" {
		p.oneOf(n, what, n.Value, known)
		return "", false
	}
	text, ok := p.text(n, what)
	if !ok {
		return "", false
	}
	switch text {
	case "ask", "approve", "approval":
		p.problemOf(what, n, "did you mean require_approval?", "%s cannot be %q", what, text)
		return "", false
	case "block", "reject", "refuse":
		p.problemOf(what, n, "did you mean deny?", "%s cannot be %q", what, text)
		return "", false
	}
	return runtime.Effect(text), p.oneOf(n, what, text, known)
}
