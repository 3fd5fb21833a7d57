// Package graft puts one rule into the text of a policy file, and leaves every other byte of
// it as it was.
//
// It refuses a file that is written in a way that no rule can be put into, rather than write
// it anew. What a rule means, and whether the result is a policy, it does not know.
//
// Start reading at [Insert].
package graft

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Insert returns the policy file with one rule more, right before the one that is
// named, or behind all others when no rule has that name, as those of the defaults:
// what stands above goes on deciding first. Everything else is as it stood:
// comments, order and spelling. Rule is a flow mapping on one line. The result is
// YAML of the same rules and this one; that it is a policy is for the caller to
// see.
func Insert(data []byte, rule, name string) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, err
	}
	out, err := insert(data, &root, rule, name)
	if err != nil {
		return nil, err
	}
	var want, got struct{ Rules []any }
	if yaml.Unmarshal(data, &want) != nil || yaml.Unmarshal(out, &got) != nil || len(got.Rules) != len(want.Rules)+1 {
		return nil, errByHand
	}
	at := position(ruleNames(rulesIn(data)), name)
	if !slices.EqualFunc(slices.Delete(got.Rules, at, at+1), want.Rules, reflect.DeepEqual) {
		return nil, errByHand
	}
	return out, nil
}

var errByHand = errors.New("the file is written in a way that no rule can be put into")

// position is where a rule goes among the names.
func position(names []string, before string) int {
	if at := slices.Index(names, before); at >= 0 {
		return at
	}
	return len(names)
}

func insert(data []byte, root *yaml.Node, rule, name string) ([]byte, error) {
	if len(root.Content) == 0 {
		return lines(data, "version: 1", "rules:", "  - "+rule), nil
	}
	document := root.Content[0]
	if document.Kind != yaml.MappingNode || document.Style&yaml.FlowStyle != 0 {
		return nil, errors.New("the file is not a mapping with one key on each line: add the rule by hand")
	}
	at := slices.IndexFunc(document.Content, func(n *yaml.Node) bool { return n.Value == "rules" && n.Column == document.Column })
	if at < 0 || at%2 != 0 {
		return lines(data, "rules:", "  - "+rule), nil
	}
	key, value := document.Content[at], document.Content[at+1]
	if value.Kind != yaml.SequenceNode {
		return below(data, key.Line, "  - "+rule), nil // rules: with nothing, or comments only
	}
	to := position(ruleNames(value), name)
	if value.Style&yaml.FlowStyle != 0 {
		switch {
		case len(value.Content) == 0:
			return within(data, value.Line, value.Column, rule), nil // after the bracket
		case to == len(value.Content):
			return nil, errByHand
		}
		item := value.Content[to]
		return within(data, item.Line, item.Column-1, rule+", "), nil
	}
	line := 1 + bytes.Count(bytes.TrimRight(data, "\n"), []byte("\n")) + 1 // behind the last
	switch {
	case to < len(value.Content):
		line = value.Content[to].Line
	case at+2 < len(document.Content):
		line = document.Content[at+2].Line
	}
	return below(data, above(data, line), strings.Repeat(" ", value.Column-1)+"- "+rule), nil
}

// above returns the number of the last line before one of the number that is
// neither empty nor a comment: those belong to what follows.
func above(data []byte, number int) int {
	all := strings.Split(string(data), "\n")
	for number--; number > 1; number-- {
		if text := strings.TrimSpace(all[number-1]); text != "" && text[0] != '#' {
			break
		}
	}
	return number
}

// lines adds lines at the end.
func lines(data []byte, more ...string) []byte {
	out := bytes.Clone(data)
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	return append(out, strings.Join(more, "\n")+"\n"...)
}

// below adds a line after that of the number, which counts from 1.
func below(data []byte, number int, line string) []byte {
	all := strings.SplitAfter(string(data), "\n")
	if last := all[number-1]; !strings.HasSuffix(last, "\n") {
		all[number-1] = last + "\n"
	}
	return []byte(strings.Join(slices.Insert(all, number, line+"\n"), ""))
}

// within adds text after a character, both of whose numbers count from 1.
func within(data []byte, number, column int, text string) []byte {
	all := strings.SplitAfter(string(data), "\n")
	line := []rune(all[number-1])
	all[number-1] = string(line[:column]) + text + string(line[column:])
	return []byte(strings.Join(all, ""))
}

// rulesIn returns the list of rules, nil where there is none.
func rulesIn(data []byte) *yaml.Node {
	var root yaml.Node
	if yaml.Unmarshal(data, &root) != nil || len(root.Content) == 0 {
		return nil
	}
	document := root.Content[0]
	for i := 0; i+1 < len(document.Content); i += 2 {
		if document.Content[i].Value == "rules" {
			return document.Content[i+1]
		}
	}
	return nil
}

// ruleNames are those of the rules, "" for one without.
func ruleNames(rules *yaml.Node) []string {
	if rules == nil {
		return nil
	}
	out := make([]string, len(rules.Content))
	for i, rule := range rules.Content {
		for j := 0; j+1 < len(rule.Content); j += 2 {
			if rule.Content[j].Value == "name" {
				out[i] = rule.Content[j+1].Value
			}
		}
	}
	return out
}
