package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/runtime"
)

// readYAML walks the document node by node: the decoder of the library would
// ignore duplicate keys and convert types in silence.
func (l *loader) readYAML() {
	decoder := yaml.NewDecoder(bytes.NewReader(l.source))
	var document, second yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return // empty, or comments only
	}
	if err != nil {
		l.problem(l.syntaxPlace(err), wrong{"this is not YAML: " + maskLine(syntaxText(err)), "compare with what kimbap config show -o yaml prints while this file is moved away"})
		return
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		l.problem(place{l.path, max(second.Line, 1), 1}, wrong{"there is more than one YAML document", "keep one, without ---"})
		return
	}
	root := document.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return
	}
	l.mapping(root, "")
}

// syntaxPlace finds the line in an error of the YAML library, which has no
// field for it.
func (l *loader) syntaxPlace(err error) place {
	line := syntaxLine(err)
	if at := runtime.FirstWrong(string(l.source), func(upTo string) (string, int) {
		var tree yaml.Node
		if err := yaml.Unmarshal([]byte(upTo), &tree); err != nil {
			return syntaxText(err), syntaxLine(err)
		}
		return "", 0
	}); at > 0 {
		line = at
	}
	return place{l.path, max(line, 1), 1}
}

func syntaxLine(err error) (line int) {
	if m := regexp.MustCompile(`line (\d+)`).FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1])
	}
	return line
}

func syntaxText(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	return regexp.MustCompile(`^line \d+: `).ReplaceAllString(text, "")
}

func (l *loader) at(n *yaml.Node) place { return place{l.path, n.Line, n.Column} }

// mapping reads one section.
func (l *loader) mapping(n *yaml.Node, prefix string) {
	if n.Kind != yaml.MappingNode {
		what := "the configuration"
		if prefix != "" {
			what = strings.TrimSuffix(prefix, ".")
		}
		l.problem(l.at(n), wrong{fmt.Sprintf("%s must be a mapping, not %s", what, describe(n)), "write key: value below it"})
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		key := prefix + name.Value
		if first, again := seen[key]; again {
			l.problem(l.at(name), wrong{fmt.Sprintf("%s stands twice, first in line %d", key, first), "keep one of the two"})
			continue
		}
		seen[key] = name.Line
		l.member(key, name, value)
	}
	for key := range seen {
		if line, ok := seen[key+"_file"]; ok && l.settings[key+"_file"].value == twinned {
			l.both(place{l.path, line, 1}, key, key+"_file")
		}
	}
}

func (l *loader) member(key string, name, value *yaml.Node) {
	s, known := l.settings[key]
	switch {
	case name.Kind != yaml.ScalarNode || name.Tag != "!!str":
		l.problem(l.at(name), wrong{fmt.Sprintf("%s is no key", describe(name)), "keys are plain words"})
	case known && value.Kind == yaml.AliasNode:
		l.problem(l.at(value), wrong{"aliases are not supported here", "write the value out"})
	case known && s.kind == aSinks:
		l.sinks(value)
	case known && s.kind == aNotifiers:
		l.notifiers(value)
	case known:
		l.value(s, value)
	case l.section(key):
		if value.Tag != "!!null" { // a section whose keys are all commented out
			l.mapping(value, key+".")
		}
	default:
		l.problem(l.at(name), l.unknown(key))
		l.cutAfter(name)
	}
}

// cutAfter shortens the last excerpt to the key: what follows a key that we do
// not know may be a secret in the wrong place.
func (l *loader) cutAfter(name *yaml.Node) {
	p := &l.problems[len(l.problems)-1]
	line, end := []rune(p.Excerpt), name.Column-1+len([]rune(name.Value))
	if end < len(line) {
		p.Excerpt = string(line[:end]) + ": …"
	}
}

func (l *loader) section(key string) bool {
	return slices.ContainsFunc(l.order, func(s setting) bool { return strings.HasPrefix(s.key, key+".") })
}

// value reads one setting in the YAML form of its kind.
func (l *loader) value(s setting, n *yaml.Node) {
	if n.Tag == "!!null" {
		l.problem(l.at(n), wrong{s.key + " has no value", "write one, or remove the key"})
		return
	}
	if fix := mismatch(s, n); fix != "" {
		l.problem(l.at(n), wrong{fmt.Sprintf("%s cannot be %s", s.key, describe(n)), fix})
		return
	}
	values, places := []string{n.Value}, []place{}
	if s.kind == aList || s.kind == aMap {
		var ok bool
		if values, places, ok = l.items(s, n); !ok {
			return
		}
	}
	l.apply(s, values, l.at(n), places)
}

// mismatch returns what to write when a node has not the form of the setting.
func mismatch(s setting, n *yaml.Node) string {
	scalar := n.Kind == yaml.ScalarNode
	switch s.kind {
	case aNumber:
		if !scalar || n.Tag != "!!int" {
			return "write a whole number, without quotes"
		}
	case aSize:
		if !scalar || n.Tag != "!!int" && n.Tag != "!!str" {
			return "write a size such as 96MiB"
		}
	case aList:
		if n.Kind != yaml.SequenceNode {
			return "write a list: [a, b]"
		}
	case aMap:
		if n.Kind != yaml.MappingNode {
			return `write a mapping: {"from": "to"}`
		}
	default:
		if !scalar {
			return "write one value"
		}
		if n.Tag != "!!str" {
			return "write it as text, in quotes and with its unit if it has one"
		}
	}
	return ""
}

// items reads the texts of a list, or the pairs of a map as "key=value".
func (l *loader) items(s setting, n *yaml.Node) (values []string, places []place, ok bool) {
	ok = true
	seen := map[string]bool{}
	step := 1
	if s.kind == aMap {
		step = 2
	}
	for i := 0; i+step <= len(n.Content); i += step {
		item, text := n.Content[i], n.Content[i].Value
		for _, part := range n.Content[i : i+step] {
			if part.Kind != yaml.ScalarNode || part.Tag != "!!str" {
				l.problem(l.at(part), wrong{fmt.Sprintf("an entry of %s cannot be %s", s.key, describe(part)), "write it as text, in quotes"})
				ok = false
			}
		}
		if seen[text] && !s.words {
			l.problem(l.at(item), wrong{fmt.Sprintf("%q stands twice in %s", text, s.key), "keep one of the two"})
			ok = false
		}
		seen[text] = true
		if s.kind == aMap {
			text += "=" + n.Content[i+1].Value
		}
		values, places = append(values, text), append(places, l.at(item))
	}
	return values, places, ok
}

// describe names what stands in a node, without quoting it.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.Tag {
	case "!!str":
		return "text"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!null":
		return "empty"
	case "!!timestamp":
		return "a date"
	}
	return "a value with a tag of its own"
}
