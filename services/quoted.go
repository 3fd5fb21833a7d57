package services

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"
)

// quoted reports whether lines of the file are shown. One of a pull request may be a link to a
// key of whoever checks it, and what is said of it stands in a log that the stranger reads: JSON
// of a key is YAML too, and a name or base_url may stand beside it.
func (s *source) quoted() bool {
	if s.root == nil {
		ours, others := outermost(s.split())
		return len(ours) > others
	}
	ours, others := rootFields(s.root)
	switch {
	case slices.Contains(ours, "actions"):
		return len(ours) > 1
	case slices.Contains(ours, "name"), slices.Contains(ours, "description"):
		return others == 0
	}
	return tooShort(s.root) && !strings.Contains(s.text, "#")
}

// rootFields are the fields of a service at the root of a tree, and how many others there are.
func rootFields(root *yaml.Node) (ours []string, others int) {
	for i := 0; root.Kind == yaml.MappingNode && i < len(root.Content); i += 2 {
		ours, others = counted(root.Content[i].Value, ours, others)
	}
	return ours, others
}

// outermost is rootFields for text that is no YAML.
func outermost(lines []string) (ours []string, others int) {
	for _, line := range lines {
		if key, _, is := strings.Cut(line, ":"); is && strings.TrimLeft(line, " \t#") == line {
			ours, others = counted(strings.Trim(key, `{"' `), ours, others)
		}
	}
	return ours, others
}

// counted takes a key for the field that it is, but for one letter.
func counted(key string, ours []string, others int) ([]string, int) {
	for _, field := range serviceFields() {
		if len(key) <= len(field)+1 && len(field) <= len(key)+1 && edits(key, field) <= 1 {
			return append(ours, field), others
		}
	}
	return ours, others + 1
}

// tooShort reports whether nothing in a tree is long enough for a secret.
func tooShort(n *yaml.Node) bool {
	if n.Style&yaml.TaggedStyle != 0 || max(len(n.Value), len(n.Anchor)) > 3 && !slices.Contains(serviceFields(), n.Value) {
		return false
	}
	return !slices.ContainsFunc(n.Content, func(child *yaml.Node) bool { return !tooShort(child) })
}

// valueNamed is what a message says of a value that begins with ! or *.
var valueNamed = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(the tag|unknown anchor) ["'].*["']`) })
