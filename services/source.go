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

	"github.com/kimbap-run/kimbap/runtime"
)

// MaxFile is the largest service file that is read, in bytes.
const MaxFile = 1 << 20

// source is one file while it is read. It collects problems instead of stopping
// at the first.
type source struct {
	file     string
	text     string
	room     *room // where the tree is read into
	root     *yaml.Node
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
	p := s.shown(line, column)
	p.Msg, p.Fix = fmt.Sprintf(format, args...), fix
	s.problems = append(s.problems, p)
}

// shown is a problem at a place, with the line there.
func (s *source) shown(line, column int) Problem {
	p := Problem{File: s.file, Line: line, Column: column}
	if lines := s.split(); line >= 1 && line <= len(lines) {
		p.Excerpt = excerpt(lines[line-1], column)
	}
	return p
}

// problem is one at a node, for a field, that is only known to others.
func (s *source) problem(n *yaml.Node, field string) Problem {
	p := s.shown(n.Line, n.Column)
	p.Field = field
	return p
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
	quoted := len(s.problems) == 0 || s.quoted()
	for i := range s.problems {
		p := &s.problems[i]
		if p.Field == "" && s.root != nil {
			p.Field = fieldAt(s.root, p.Line, p.Column)
		}
		if !quoted {
			p.Excerpt, p.Msg = "", valueNamed().ReplaceAllString(p.Msg, "$1")
		}
	}
	if s.untold > 0 {
		s.problems = append(s.problems, Problem{File: s.file, Line: len(s.split()) + 1, Column: 1, Msg: fmt.Sprintf("and %d more problems", s.untold)})
	}
	return s.problems.orNil()
}

// bad notes a problem at a node.
func (s *source) bad(n *yaml.Node, fix, format string, args ...any) {
	s.add(n.Line, n.Column, fix, format, args...)
}

// warn notes what is no problem, and will not work as it looks.
func (p *parser) warn(n *yaml.Node, fix, format string, args ...any) {
	w := Problem{File: p.file, Line: n.Line, Column: n.Column, Msg: fmt.Sprintf(format, args...), Fix: fix}
	if lines := p.split(); n.Line <= len(lines) {
		w.Excerpt = excerpt(lines[n.Line-1], n.Column)
	}
	p.s.Warnings = append(p.s.Warnings, w)
}

// badField is bad for a problem that is one field's.
func (s *source) badField(n *yaml.Node, field, fix, format string, args ...any) {
	before := len(s.problems)
	s.bad(n, fix, format, args...)
	if len(s.problems) > before {
		s.problems[before].Field = field
	}
}

// wrong notes a value of the wrong kind. Aliases were noted already.
func (s *source) wrong(n *yaml.Node, name, want string) {
	if n.Kind != yaml.AliasNode {
		s.badField(n, name, "write "+want, "%s must be %s", name, want)
	}
}

// read turns the bytes into one YAML tree, or notes why it cannot.
func (s *source) read(data []byte) *yaml.Node {
	if len(data) > MaxFile {
		s.add(0, 0, "split the service in two", "the file has more than the 1 MiB a service file may have")
		return nil
	}
	s.text = string(data)
	if root, plain := plainTree(s.text, s.room); plain {
		s.root = root
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
	s.root = doc.Content[0]
	s.inspect(s.root)
	return s.root
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
	msg, line := said(err)
	if at := runtime.FirstWrong(s.text, func(upTo string) (string, int) {
		var tree yaml.Node
		return said(decode(yaml.NewDecoder(strings.NewReader(upTo)), &tree))
	}); at > 0 {
		line = at
	}
	line = min(max(line, 1), len(s.split()))
	fix := "check the indentation, quotes and brackets here and on the line before"
	switch {
	case strings.HasPrefix(msg, "did not find expected ','") && strings.Contains(s.split()[line-1], "{"):
		fix = `in {…} and […] quote a value that has braces: path: "/notes/{id}"`
	case strings.Contains(msg, "tab character"), strings.HasPrefix(strings.TrimLeft(s.split()[line-1], " "), "\t"):
		fix = "indent with blanks"
	case strings.Contains(msg, "mapping values are not allowed"):
		fix = `quote a value that has ": " in it, and indent what belongs together alike`
	case strings.Contains(msg, "unexpected end of stream"):
		fix = "close the quote or bracket that was opened"
	}
	s.add(line, 1, fix, "not valid YAML: %s", msg)
}

// said is what the YAML reader says, and the line that it names, 1 for none.
func said(err error) (msg string, line int) {
	if err == nil {
		return "", 1
	}
	msg, line = strings.TrimPrefix(err.Error(), "yaml: "), 1
	if m := yamlLine().FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1])
		msg = msg[len(m[0]):]
	}
	return msg, line
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
			s.bad(key, "write a name, like base_url", "a key must be plain text")
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

// named reports whether a key is one that a field can have.
func named(key *yaml.Node) bool { return key.Kind == yaml.ScalarNode && key.Tag != "!!merge" }
