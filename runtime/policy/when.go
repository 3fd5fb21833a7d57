package policy

import (
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy/condition"
)

// Actions knows the argument schemas that conditions are checked against, by
// "service.action".
type Actions interface {
	Action(ref string) (*runtime.Action, bool)
}

// when compiles the condition of a rule whose match has been read.
func (p *parser) when(n *yaml.Node, r *ruleDocument) {
	text, ok := p.text(n, "when")
	if !ok {
		return
	}
	if p.conditions == nil {
		compiler, err := condition.NewCompiler()
		if err != nil {
			p.problem(n, "", "conditions cannot be compiled: %v", err)
			return
		}
		p.conditions = compiler
	}
	actions := p.actionsOf(r)
	var one *runtime.Action
	if len(actions) == 1 {
		one = actions[0]
	}
	compiled, problems := p.conditions.Compile(text, one)
	if len(problems) == 0 && len(actions) > 1 {
		problems = p.conditions.Check(text, actions)
	}
	for _, found := range problems {
		line, column := p.within(n, text, found.Offset)
		fix := found.Fix
		if near := closest(found.Unknown, found.Known); near != "" {
			fix = "did you mean " + near + "?"
		} else if fix == "" && len(found.Known) > 0 {
			fix = "there are " + strings.Join(found.Known, ", ")
		}
		p.problemAt(line, column, fix, "when: %s", found.Msg)
	}
	r.when, r.holds = strings.TrimSpace(text), compiled
}

// actionsOf are the actions that the rule is for, nil when it is for others as well, or one of
// them is not installed.
func (p *parser) actionsOf(r *ruleDocument) (all []*runtime.Action) {
	if p.actions == nil {
		return nil
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(r.match[fieldAction]))) {
		if strings.Contains(name, "*") {
			return nil
		}
		action, ok := p.actions.Action(name)
		if !ok || string(action.Ref) != name { // an alias is not what requests are matched by
			return nil
		}
		all = append(all, action)
	}
	return all
}

// within finds the place in the file of a code point of a value, in whatever
// style of YAML it is written: by counting what is not space. Where an escape
// makes the two differ, the place is that of the value.
func (p *parser) within(n *yaml.Node, text string, offset int) (line, column int) {
	runes := []rune(text)
	offset = min(offset, len(runes))
	wanted := 0
	for _, r := range runes[:offset] {
		if !unicode.IsSpace(r) {
			wanted++
		}
	}
	row, at := n.Line-1, n.Column-1
	switch n.Style &^ (yaml.TaggedStyle | yaml.FlowStyle) {
	case yaml.LiteralStyle, yaml.FoldedStyle:
		row, at = row+1, 0
	case yaml.SingleQuotedStyle, yaml.DoubleQuotedStyle:
		at++
	}
	next := 0 // of runes
	for ; row >= 0 && row < len(p.lines); row, at = row+1, 0 {
		source := []rune(p.lines[row])
		for ; at < len(source); at++ {
			if unicode.IsSpace(source[at]) {
				continue
			}
			for next < len(runes) && unicode.IsSpace(runes[next]) {
				next++
			}
			if wanted == 0 {
				return row + 1, at + 1
			}
			if next >= len(runes) {
				return row + 1, at + 1 // the end of the value
			}
			if source[at] != runes[next] {
				return n.Line, n.Column
			}
			next++
			wanted--
		}
		if next >= len(runes) && wanted == 0 {
			return row + 1, len(source) + 1
		}
	}
	return n.Line, n.Column
}
