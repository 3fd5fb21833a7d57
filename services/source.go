package services

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// MaxFile is the largest service file that is read, in bytes.
const MaxFile = 1 << 20

// source is one file while it is read. It collects problems instead of stopping
// at the first.
type source struct {
	file     string
	text     string
	room     *room    // where the tree is read into
	lines    []string // of the text, once a problem is to be shown
	problems Problems
	untold   int // problems past the first mostProblems
}

// mostProblems bounds what one file can make of a message.
const mostProblems = 100

func (s *source) add(line, column int, fix, format string, args ...any) {
	if len(s.problems) == mostProblems {
		s.untold++
		return
	}
	p := Problem{File: s.file, Line: line, Column: column, Msg: fmt.Sprintf(format, args...), Fix: fix}
	if lines := s.split(); line >= 1 && line <= len(lines) {
		p.Excerpt = excerpt(lines[line-1], column)
	}
	s.problems = append(s.problems, p)
}

// split is the text in lines. Most files have no problem to show.
func (s *source) split() []string {
	if s.lines == nil && s.text != "" {
		s.lines = strings.Split(strings.ReplaceAll(s.text, "\r\n", "\n"), "\n")
	}
	return s.lines
}

// done returns the problems found, or nil.
func (s *source) done() error {
	if s.untold > 0 {
		s.problems = append(s.problems, Problem{File: s.file, Line: len(s.split()) + 1, Column: 1, Msg: fmt.Sprintf("and %d more problems", s.untold)})
	}
	return s.problems.orNil()
}

// bad notes a problem at a node.
func (s *source) bad(n *yaml.Node, fix, format string, args ...any) {
	s.add(n.Line, n.Column, fix, format, args...)
}

// badField is bad for a problem that is one field's.
func (s *source) badField(n *yaml.Node, field, fix, format string, args ...any) {
	before := len(s.problems)
	s.bad(n, fix, format, args...)
	if len(s.problems) > before {
		s.problems[before].Field = field
	}
}

// read turns the bytes into one YAML tree, or notes why it cannot.
func (s *source) read(data []byte) *yaml.Node {
	if len(data) > MaxFile {
		s.add(0, 0, "split the service in two", "the file has %d bytes, more than the 1 MiB a service file may have", len(data))
		return nil
	}
	s.text = string(data)
	if root, plain := plainTree(s.text, s.room); plain {
		s.inspect(root)
		return root
	}
	if !utf8.Valid(data) {
		s.notUTF8()
		return nil
	}
	return s.document(data)
}

// document reads what only the YAML library can read.
func (s *source) document(data []byte) *yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := decode(dec, &doc); err != nil {
		if errors.Is(err, io.EOF) {
			s.add(0, 0, "start with name:, version:, base_url: and actions:", "the file is empty")
		} else {
			s.syntax(err)
		}
		return nil
	}
	var second yaml.Node
	if err := decode(dec, &second); err == nil {
		s.bad(&second, "put the second service in a file of its own", "a service file holds one document, and here starts another")
	} else if !errors.Is(err, io.EOF) {
		s.syntax(err)
	}
	if len(doc.Content) == 0 {
		s.add(0, 0, "start with name:, version:, base_url: and actions:", "the file is empty")
		return nil
	}
	s.inspect(doc.Content[0])
	return doc.Content[0]
}

// decode reads one document. The parser has panicked on hostile input before;
// a file must not take the process down.
func decode(dec *yaml.Decoder, into *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("yaml: the text is not valid YAML")
		}
	}()
	return dec.Decode(into)
}

var yamlLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^line (\d+): `) })

func (s *source) syntax(err error) {
	msg, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if m := yamlLine().FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1])
		msg = msg[len(m[0]):]
		if structural(msg) { // yaml.v3 counts these lines from 0, all others from 1
			line++
		}
	}
	s.add(min(max(line, 1), len(s.split())), 1, "", "not valid YAML: %s", msg)
}

func structural(msg string) bool {
	rest, ok := strings.CutPrefix(msg, "did not find expected ")
	return ok && contains([]string{"key", "node content", "',' or ']'", "',' or '}'", "'-' indicator", "<document start>"}, rest)
}

func (s *source) notUTF8() {
	for i, line := range s.split() {
		if utf8.ValidString(line) {
			continue
		}
		column := 1
		for _, r := range line {
			if r == utf8.RuneError {
				break
			}
			column++
		}
		s.add(i+1, column, "save the file as UTF-8", "the file is not UTF-8")
		return
	}
}

// inspect refuses, anywhere in the tree, what makes a file mean something else
// than it shows: keys given twice, anchors and aliases, merge keys, tags.
func (s *source) inspect(n *yaml.Node) {
	if n.Anchor != "" {
		s.bad(n, "write the value out", "anchors are not allowed: a service file says everything where it stands")
	}
	if n.Kind == yaml.AliasNode {
		s.bad(n, "write the value out", "aliases are not allowed: a service file says everything where it stands")
		return
	}
	if n.Style&yaml.TaggedStyle != 0 {
		s.bad(n, "leave the tag out; put text in quotes", "the tag %s is not allowed", shown(n.Tag))
	}
	if n.Kind == yaml.MappingNode {
		s.inspectKeys(n)
	}
	for _, child := range n.Content {
		s.inspect(child)
	}
}

func (s *source) inspectKeys(n *yaml.Node) {
	var first keys
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Kind != yaml.ScalarNode:
			s.bad(key, "", "a key must be plain text")
		case key.Tag == "!!merge":
			s.bad(key, "write the fields out", "merge keys are not allowed: a service file says everything where it stands")
		default:
			if line := first.add(n, i); line > 0 {
				s.bad(key, "remove one of the two", "field %s is given twice, first on line %d", shown(key.Value), line)
			}
		}
	}
}

// keys are the keys of a mapping that were seen. Few are compared one by one.
type keys struct{ lines map[string]int }

// add takes the key at n.Content[i] and returns the line where it stood before, 0
// when it did not.
func (k *keys) add(n *yaml.Node, i int) int {
	const few = 2 * 24
	key := n.Content[i]
	if len(n.Content) <= few {
		for j := 0; j < i; j += 2 {
			if other := n.Content[j]; other.Value == key.Value && named(other) {
				return other.Line
			}
		}
		return 0
	}
	if k.lines == nil {
		k.lines = make(map[string]int, len(n.Content)/2)
	}
	if line := k.lines[key.Value]; line > 0 {
		return line
	}
	k.lines[key.Value] = key.Line
	return 0
}

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
		if key := n.Content[i]; named(key) && !contains(known, key.Value) {
			fix := "the fields here are: " + strings.Join(known, ", ")
			if near := nearest(key.Value, known); near != "" {
				fix = "did you mean " + near + "?"
			}
			s.badField(key, name+"."+key.Value, fix, "%s has no field %s", name, shown(key.Value))
		}
	}
	return o
}

// named reports whether a key is one that a field can have.
func named(key *yaml.Node) bool { return key.Kind == yaml.ScalarNode && key.Tag != "!!merge" }

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

func contains(words []string, word string) bool {
	for _, w := range words {
		if w == word {
			return true
		}
	}
	return false
}

// wrong notes a value of the wrong kind. Aliases were noted already.
func (s *source) wrong(n *yaml.Node, name, want string) {
	if n.Kind != yaml.AliasNode {
		s.badField(n, name, "", "%s must be %s", name, want)
	}
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
	if n.Kind == yaml.ScalarNode && !contains(allowed, value) {
		fix := ""
		if near := nearest(value, allowed); near != "" {
			fix = "did you mean " + near + "?"
		}
		o.bad(n, fix, "%s is %s, but must be one of %s", o.label(field), shown(value), strings.Join(allowed, ", "))
		return otherwise
	}
	return value
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
