package policy

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Insert returns the policy file with one rule more, before all others, and
// everything else as it stood: comments, order and spelling. Rule is a flow
// mapping on one line. The result is YAML of the same rules and this one; that
// it is a policy is for the caller to see.
func Insert(data []byte, rule string) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, err
	}
	out, err := insert(data, &root, rule)
	if err != nil {
		return nil, err
	}
	before, after := rulesIn(data), rulesIn(out)
	if after == nil || len(after.Content) != 1+size(before) || after.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("the file is written in a way that no rule can be put into: add it by hand")
	}
	return out, nil
}

func insert(data []byte, root *yaml.Node, rule string) ([]byte, error) {
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
	switch {
	case value.Kind == yaml.SequenceNode && value.Style&yaml.FlowStyle != 0:
		if len(value.Content) > 0 {
			rule += ", "
		}
		return within(data, value.Line, value.Column, rule), nil // after the bracket
	case value.Kind == yaml.SequenceNode:
		return below(data, key.Line, strings.Repeat(" ", value.Column-1)+"- "+rule), nil
	}
	return below(data, key.Line, "  - "+rule), nil // rules: with nothing, or comments only
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

func size(n *yaml.Node) int {
	if n == nil {
		return 0
	}
	return len(n.Content)
}
