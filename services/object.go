package services

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// object is one mapping of the file with known fields.
type object struct {
	*source
	node *yaml.Node
	name string // how messages call it
}

// object reads a mapping and notes every field that is not known.
func (s *source) object(n *yaml.Node, name string, known ...string) *object {
	o := &object{source: s, node: n, name: name}
	if n.Kind != yaml.MappingNode {
		s.wrong(n, name, "fields and values, like {"+known[0]+": …}")
		return o
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; named(key) && !slices.Contains(known, key.Value) {
			fix := "the fields here are: " + strings.Join(known, ", ")
			if near := nearest(key.Value, known); near != "" {
				fix = "did you mean " + near + "?"
			}
			s.badField(key, name+"."+key.Value, fix, "%s has no field %s", name, shown(key.Value))
		}
	}
	return o
}

// value is what stands at a field, the first time; nil when it is absent.
func (o *object) value(field string) *yaml.Node {
	if o.node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(o.node.Content); i += 2 {
		if key := o.node.Content[i]; key.Value == field && named(key) {
			return o.node.Content[i+1]
		}
	}
	return nil
}

// get returns the value of a field; nil when it is absent or written empty.
func (o *object) get(field string) *yaml.Node {
	n := o.value(field)
	if n != nil && n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil
	}
	return n
}

// at is where to point for a field: its value, or the object when it is absent.
func (o *object) at(field string) *yaml.Node {
	if n := o.value(field); n != nil {
		return n
	}
	return o.node
}

func (o *object) label(field string) string { return o.name + "." + field }

// text reads a field that holds text, "" when absent.
func (o *object) text(field string) string {
	n := o.get(field)
	if n == nil {
		return ""
	}
	return o.textOf(n, o.label(field))
}

// textOf reads a scalar as text. A number or boolean is taken as it is written.
func (s *source) textOf(n *yaml.Node, name string) string {
	if n.Kind != yaml.ScalarNode {
		s.wrong(n, name, "text")
		return ""
	}
	return n.Value
}

// needed reads a text field that must be there.
func (o *object) needed(field, fix string) string {
	if o.get(field) == nil {
		if o.node.Kind == yaml.MappingNode {
			o.badField(o.at(field), o.label(field), fix, "%s needs the field %s", o.name, field)
		}
		return ""
	}
	return o.text(field)
}

func (o *object) boolean(field string, otherwise bool) bool {
	n := o.get(field)
	if n == nil {
		return otherwise
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		o.wrong(n, o.label(field), "true or false")
		return otherwise
	}
	return strings.EqualFold(n.Value, "true")
}

// oneOf reads a text field with a closed list of values.
func (o *object) oneOf(field, otherwise string, allowed ...string) string {
	n := o.get(field)
	if n == nil {
		return otherwise
	}
	value := o.textOf(n, o.label(field))
	if n.Kind == yaml.ScalarNode && !slices.Contains(allowed, value) {
		fix := "write one of these"
		if near := cmp.Or(longer(value, allowed), nearest(value, allowed)); near != "" {
			fix = "did you mean " + near + "?"
		}
		o.bad(n, fix, "%s is %s, but must be one of %s", o.label(field), shown(value), strings.Join(allowed, ", "))
		return otherwise
	}
	return value
}

// longer is the word that another one is the beginning of, as int is of integer.
func longer(written string, words []string) string {
	i := slices.IndexFunc(words, func(word string) bool { return len(written) > 2 && strings.HasPrefix(word, written) })
	if i < 0 {
		return ""
	}
	return words[i]
}

// integer reads a whole number between two bounds.
func (o *object) integer(field string, otherwise, low, high int) int {
	n := o.get(field)
	if n == nil {
		return otherwise
	}
	v, ok := wholeNumber(n)
	if !ok || v < low || v > high {
		o.wrong(n, o.label(field), fmt.Sprintf("a whole number from %d to %d", low, high))
		return otherwise
	}
	return v
}

func wholeNumber(n *yaml.Node) (int, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" {
		return 0, false
	}
	v, err := strconv.Atoi(n.Value)
	return v, err == nil
}

// list reads a field that holds a list; a missing one is empty.
func (o *object) list(field string) []*yaml.Node {
	n := o.get(field)
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		o.wrong(n, o.label(field), "a list, like [a, b]")
		return nil
	}
	return n.Content
}

// texts reads a list of texts.
func (o *object) texts(field string) []string {
	var out []string
	for _, n := range o.list(field) {
		if n.Kind != yaml.ScalarNode || n.Value == "" {
			o.wrong(n, o.label(field), "a list of texts")
			continue
		}
		out = append(out, n.Value)
	}
	return out
}

// pair is one entry of a mapping whose keys are the author's own.
type pair struct {
	name       string
	key, value *yaml.Node
}

// pairs reads such a mapping in the file's order, without the keys that were
// noted as duplicates.
func (o *object) pairs(field string) []pair {
	n := o.get(field)
	if n == nil {
		return nil
	}
	return o.pairsOf(n, o.label(field))
}

func (s *source) pairsOf(n *yaml.Node, name string) []pair {
	if n.Kind != yaml.MappingNode {
		s.wrong(n, name, "names and values, like {a: b}")
		return nil
	}
	var seen keys
	out := make([]pair, 0, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; named(key) && seen.add(n, i) == 0 {
			out = append(out, pair{key.Value, key, n.Content[i+1]})
		}
	}
	return out
}
