package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy/condition"
)

// MaxFile is the largest policy file, in bytes.
const MaxFile = 1 << 20

// parser walks the YAML tree and collects problems.
type parser struct {
	file       string
	lines      []string
	quotes     bool // lines of the file may be shown
	problems   Problems
	joined     *joined
	actions    Actions             // nil: no schemas
	conditions *condition.Compiler // nil: no rule had a condition yet
}

// problemOf notes a problem at the node that is one field's.
func (p *parser) problemOf(field string, n *yaml.Node, fix, format string, args ...any) {
	p.problem(n, fix, format, args...)
	p.problems[len(p.problems)-1].Field = field
}

// problem notes a problem at the node.
func (p *parser) problem(n *yaml.Node, fix, format string, args ...any) {
	p.problemAt(n.Line, n.Column, fix, format, args...)
}

func (p *parser) problemAt(line, column int, fix, format string, args ...any) {
	line, column = max(line, 1), max(column, 1)
	found := Problem{File: p.file, Line: line, Column: column, Msg: fmt.Sprintf(format, args...), Fix: fix}
	if p.quotes {
		found.Excerpt = excerpt(p.lines, line, column)
	}
	p.problems = append(p.problems, found)
}

// read returns the root of the one document, nil for an empty file or one that
// is not YAML.
func (p *parser) read(data []byte) *yaml.Node {
	p.quotes = slices.ContainsFunc(p.lines, begins)
	if len(data) > MaxFile {
		p.problemAt(1, 1, "split the rules by tenant", "the file is over 1 MiB")
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var root, more yaml.Node
	err := decoder.Decode(&root)
	if errors.Is(err, io.EOF) || err == nil && emptyDocument(&root) && strings.TrimSpace(stripComments(p.lines)) == "" {
		return nil
	}
	if err == nil {
		err = decoder.Decode(&more)
		switch {
		case errors.Is(err, io.EOF) && len(root.Content) == 1:
			return root.Content[0]
		case errors.Is(err, io.EOF):
			p.problemAt(1, 1, "begin the file with: version: 1", "the file has no content")
			return nil
		case err == nil:
			p.problem(&more, "keep one document, without ---", "a second YAML document begins here")
			return nil
		}
	}
	p.syntax(string(data), err)
	return nil
}

// begins reports whether a line begins a field or an item. A file that has no such line is no
// policy: in a pull request it may be a link to a key of whoever checks it, and the stranger
// reads what is said of it.
func begins(line string) bool {
	fields := []string{"version", "defaults", "rules", "mode", "tests"}
	key, _, is := strings.Cut(line, ":")
	key = strings.Trim(key, `{"' `)
	return strings.HasPrefix(line, "- ") || is && (slices.Contains(fields, key) || closest(key, fields) != "") // a misspelt one too
}

// emptyDocument reports whether nothing was written: no value, not even null.
func emptyDocument(root *yaml.Node) bool {
	return len(root.Content) == 0 || root.Content[0].Kind == yaml.ScalarNode && root.Content[0].Value == ""
}

// stripComments returns what the lines hold beside comments.
func stripComments(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		if text := strings.TrimSpace(line); !strings.HasPrefix(text, "#") && text != "---" {
			b.WriteString(text)
		}
	}
	return strings.TrimPrefix(b.String(), "\ufeff")
}

// plain refuses what makes a value other than what is read: anchors, aliases
// and explicit tags. Aliases are not followed.
func (p *parser) plain(n *yaml.Node) {
	switch {
	case n.Kind == yaml.AliasNode:
		p.problem(n, fmt.Sprintf(`quote it: "*%s"`, n.Value), "an unquoted * is a YAML alias, not a pattern")
	case n.Anchor != "":
		p.problem(n, "write the value out where it is used", "anchors (&%s) are not allowed in a policy", n.Anchor)
	case n.Style&yaml.TaggedStyle != 0:
		p.problem(n, "leave the tag out; quote a value that begins with !", "tags (%s) are not allowed in a policy", n.Tag)
	}
	for _, child := range n.Content {
		p.plain(child)
	}
}

// document reads the top level.
func (p *parser) document(root *yaml.Node, doc *document) {
	seen := p.mapping(root, "the policy", []string{"version", "defaults", "rules", "mode"}, func(key string, v *yaml.Node) {
		switch key {
		case "version":
			if v.Kind != yaml.ScalarNode || v.ShortTag() != "!!int" || v.Value != "1" {
				p.problem(v, "version: 1", "version is not one this kimbap knows")
			}
		case "defaults":
			p.defaults(v, doc)
		case "rules":
			p.rules(v, doc)
		case "mode":
			mode, ok := p.word(v, "mode")
			if ok && p.oneOf(v, "mode", mode, []string{"enforce", "report"}) {
				p.joined.mode = p.first(p.joined.mode, v, "mode")
				doc.report = mode == "report"
			}
		}
	})
	if seen != nil && seen["version"] == nil {
		p.problem(root, "begin the file with: version: 1", "version is missing")
	}
}

// defaults reads the effects by risk; those not named keep the built-in one.
func (p *parser) defaults(n *yaml.Node, doc *document) {
	var known []string
	for _, risk := range risks() {
		known = append(known, string(risk))
	}
	p.mapping(n, "defaults", known, func(key string, v *yaml.Node) {
		if effect, ok := p.effect(v, "defaults."+key); ok {
			risk := runtime.Risk(key)
			p.joined.defaults[risk] = p.first(p.joined.defaults[risk], v, "defaults."+key)
			doc.defaults[runtime.Risk(key)] = effect
		}
	})
}

// rules reads the list.
func (p *parser) rules(n *yaml.Node, doc *document) {
	if n.Kind != yaml.SequenceNode {
		p.wrongKind(n, "rules", "a list of rules, or left out")
		return
	}
	for _, item := range n.Content {
		r, name := p.rule(item)
		if name != nil {
			switch first, twice := p.joined.rules[r.name]; {
			case twice && first.file == p.file:
				p.problem(name, "give each rule its own name: errors and the audit quote it", "rule %q is already in line %d", r.name, first.line)
			case twice:
				p.problem(name, "give each rule its own name: errors and the audit quote it", "rule %q is already in %s", r.name, first)
			default:
				p.joined.rules[r.name] = p.placeOf(name)
			}
		}
		doc.rules = append(doc.rules, r)
	}
}
