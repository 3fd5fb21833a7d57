package services

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Most service files use little of YAML: block mappings and lists, flow
// collections on one line, and plain or quoted text. plainTree reads just that,
// in a tenth of the time of a whole YAML reader; a home with the whole catalogue
// starts by reading half a megabyte. It knows when it does not know: at the first
// thing outside of that, a mistake included, it gives up, and the YAML library
// reads the file, or says what is wrong with it. What both read they read alike,
// places included; that is tested on every file we have, and by fuzzing.

// deepest is how far collections are read inside each other.
const deepest = 24

// plainLines reads one file, line by line. Only printable ASCII comes here, so
// that a byte is a column.
type plainLines struct {
	text  string // what follows the current line
	line  string // the current line that says something; "" at the end
	no    int    // its number, from 1
	at    int    // its indentation; -1 at the end
	depth int
	lost  bool // it is not plain
	*room
}

// room is the memory of a tree, which is thrown away with the file: the next file
// is read into it again.
type room struct {
	blocks [][]yaml.Node
	used   int          // nodes
	kids   []*yaml.Node // children of the collections that are open
}

const nodesOfBlock = 256

// next is a node that is not used yet.
func (r *room) next() *yaml.Node {
	block, i := r.used/nodesOfBlock, r.used%nodesOfBlock
	if block == len(r.blocks) {
		r.blocks = append(r.blocks, make([]yaml.Node, nodesOfBlock))
	}
	r.used++
	n := &r.blocks[block][i]
	*n = yaml.Node{Content: n.Content[:0]}
	return n
}

// plainTree reads the text into the room; false when it is not plain.
func plainTree(text string, r *room) (*yaml.Node, bool) {
	for i := range len(text) {
		if c := text[i]; c < ' ' && c != '\n' || c > '~' {
			return nil, false
		}
	}
	r.used, r.kids = 0, r.kids[:0]
	p := &plainLines{text: text, room: r}
	p.next()
	if p.at != 0 {
		return nil, false
	}
	root := p.block()
	return root, !p.lost && p.at < 0
}

// next goes to the next line that is not blank and no comment.
func (p *plainLines) next() {
	for p.text != "" {
		p.line, p.text, _ = strings.Cut(p.text, "\n")
		p.no++
		for p.at = 0; p.at < len(p.line) && p.line[p.at] == ' '; {
			p.at++
		}
		if p.at == len(p.line) || p.line[p.at] == '#' {
			continue
		}
		if strings.HasPrefix(p.line, "---") || strings.HasPrefix(p.line, "...") {
			p.lose() // it may begin or end a document
		}
		return
	}
	p.line, p.at = "", -1
}

// lose gives up: what follows is not looked at any more.
func (p *plainLines) lose() {
	p.lost, p.line, p.text, p.at = true, "", "", -1
}

// node makes a node that starts where rest, the end of the line, begins.
func (p *plainLines) node(kind yaml.Kind, tag, rest string) *yaml.Node {
	n := p.room.next()
	n.Kind, n.Tag, n.Line, n.Column = kind, tag, p.no, len(p.line)-len(rest)+1
	return n
}

// close gives a collection the children that were read since the mark.
func (p *plainLines) close(n *yaml.Node, mark int) *yaml.Node {
	if len(p.kids) > mark {
		n.Content = append(slices.Grow(n.Content, len(p.kids)-mark), p.kids[mark:]...)
	}
	p.kids = p.kids[:mark]
	p.depth--
	return n
}

func (p *plainLines) open() (mark int) {
	if p.depth++; p.depth > deepest {
		p.lose()
	}
	return len(p.kids)
}

// block reads the mapping or list that begins with the current line.
func (p *plainLines) block() *yaml.Node {
	indent, mark := p.at, p.open()
	if p.at < 0 {
		p.lose()
		return nil
	}
	isList := strings.HasPrefix(p.line[indent:], "- ")
	kind, tag := yaml.MappingNode, "!!map"
	if isList {
		kind, tag = yaml.SequenceNode, "!!seq"
	}
	n := p.node(kind, tag, p.line[indent:])
	for p.at == indent {
		if strings.HasPrefix(p.line[indent:], "- ") != isList {
			p.lose()
		} else if isList {
			p.item()
		} else {
			p.member()
		}
	}
	if p.at > indent {
		p.lose()
	}
	return p.close(n, mark)
}

// item reads "- value", or "- key: value" with further members below the key.
func (p *plainLines) item() {
	rest := strings.TrimLeft(p.line[p.at+2:], " ")
	if rest == "" || rest[0] == '#' || strings.HasPrefix(rest, "- ") || rest == "-" {
		p.lose()
		return
	}
	if rest[0] != '{' && rest[0] != '[' && isMember(rest) {
		p.at = len(p.line) - len(rest)
		p.kids = append(p.kids, p.block())
		return
	}
	p.value(rest)
}

// isMember reports whether a line in a list is a key and its value.
func isMember(rest string) bool {
	if rest[0] == '"' || rest[0] == '\'' {
		return false // as a key it would not be at the end of its line: value gives up on it
	}
	end := plainEnd(rest, false)
	return end < len(rest) && rest[end] == ':'
}

// member reads "key: value", or "key:" with a collection below it.
func (p *plainLines) member() {
	indent := p.at
	key, rest := p.scalar(p.line[indent:], false)
	if p.lost || !strings.HasPrefix(rest, ":") || len(p.line)-indent-len(rest) > longestKey {
		p.lose()
		return
	}
	p.kids = append(p.kids, key)
	rest = rest[1:]
	if rest != "" && rest[0] != ' ' {
		p.lose()
		return
	}
	if rest = strings.TrimLeft(rest, " "); rest != "" && rest[0] != '#' {
		p.value(rest)
		return
	}
	if p.next(); p.at <= indent {
		p.lose()
		return
	}
	p.kids = append(p.kids, p.block())
}

// longestKey is less than YAML allows.
const longestKey = 128

// value reads what must be the rest of the line, and goes to the next one.
func (p *plainLines) value(rest string) {
	var n *yaml.Node
	indent := p.at
	if n, rest = p.inline(rest, false); p.lost {
		return
	}
	if rest = strings.TrimLeft(rest, " "); rest != "" && rest[0] != '#' || len(rest) > 0 && p.line[len(p.line)-len(rest)-1] != ' ' {
		p.lose()
		return
	}
	p.kids = append(p.kids, n)
	if p.next(); p.at > indent { // text that goes on
		p.lose()
	}
}

// inline reads a scalar or a flow collection and returns what follows it.
func (p *plainLines) inline(rest string, flow bool) (*yaml.Node, string) {
	switch {
	case rest == "":
		p.lose()
		return nil, ""
	case rest[0] == '{':
		return p.flow(rest, yaml.MappingNode, "!!map", '}')
	case rest[0] == '[':
		return p.flow(rest, yaml.SequenceNode, "!!seq", ']')
	}
	return p.scalar(rest, flow)
}

// flow reads {a: b, c: d} or [a, b].
func (p *plainLines) flow(rest string, kind yaml.Kind, tag string, end byte) (*yaml.Node, string) {
	mark, n := p.open(), p.node(kind, tag, rest)
	n.Style = yaml.FlowStyle
	rest = strings.TrimLeft(rest[1:], " ")
	if rest != "" && rest[0] == end {
		return p.close(n, mark), rest[1:]
	}
	for !p.lost {
		var child *yaml.Node
		if kind == yaml.MappingNode {
			before := len(rest)
			child, rest = p.scalar(rest, true)
			if p.lost || !strings.HasPrefix(rest, ": ") || before-len(rest) > longestKey {
				break
			}
			p.kids = append(p.kids, child)
			rest = strings.TrimLeft(rest[1:], " ")
		}
		if child, rest = p.inline(rest, true); p.lost {
			break
		}
		p.kids = append(p.kids, child)
		rest = strings.TrimLeft(rest, " ")
		if rest != "" && rest[0] == end {
			return p.close(n, mark), rest[1:]
		}
		if rest == "" || rest[0] != ',' {
			break
		}
		rest = strings.TrimLeft(rest[1:], " ")
	}
	p.lose()
	return n, ""
}

// scalar reads one text and returns what follows it, blanks after plain text
// left out.
func (p *plainLines) scalar(rest string, flow bool) (*yaml.Node, string) {
	if rest == "" || strings.IndexByte("?:,[]{}#&*!|>%@`<=", rest[0]) >= 0 || rest[0] == '-' && (len(rest) == 1 || rest[1] == ' ' || flow) {
		p.lose()
		return nil, ""
	}
	n := p.node(yaml.ScalarNode, "!!str", rest)
	switch rest[0] {
	case '"':
		n.Style = yaml.DoubleQuotedStyle
		return n, p.quoted(n, rest[1:])
	case '\'':
		n.Style = yaml.SingleQuotedStyle
		end := strings.IndexByte(rest[1:], '\'')
		if end < 0 || strings.HasPrefix(rest[end+2:], "'") {
			p.lose()
			return n, ""
		}
		n.Value = rest[1 : end+1]
		return n, rest[end+2:]
	}
	end := plainEnd(rest, flow)
	n.Value = strings.TrimRight(rest[:end], " ")
	n.Tag = tagOf(n.Value)
	return n, rest[end:]
}

// quoted reads text up to its double quote. Of the escapes it knows the customary.
func (p *plainLines) quoted(n *yaml.Node, rest string) string {
	end := strings.IndexByte(rest, '"')
	if end >= 0 && strings.IndexByte(rest[:end], '\\') < 0 {
		n.Value = rest[:end]
		return rest[end+1:]
	}
	var b strings.Builder
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '"':
			n.Value = b.String()
			return rest[i+1:]
		case c != '\\':
			b.WriteByte(c)
		case i+1 < len(rest) && (rest[i+1] == '\\' || rest[i+1] == '"'):
			i++
			b.WriteByte(rest[i])
		case i+1 < len(rest) && rest[i+1] == 'n':
			i++
			b.WriteByte('\n')
		default:
			p.lose()
			return ""
		}
	}
	p.lose()
	return ""
}

// plainEnd is where text without quotes ends: before ": ", before " #", and in a
// flow collection before its punctuation.
func plainEnd(s string, flow bool) int {
	for i := range len(s) {
		switch s[i] {
		case ':':
			if i+1 == len(s) || s[i+1] == ' ' {
				return i
			}
		case '#':
			if i > 0 && s[i-1] == ' ' {
				return i
			}
		case ',', '[', ']', '{', '}', '?':
			if flow {
				return i
			}
		}
	}
	return len(s)
}

// tagOf is what YAML takes text without quotes for. The few texts that only a
// YAML reader can tell it is asked for.
func tagOf(s string) string {
	switch c := s[0]; {
	case strings.IndexByte("yYnNtTfFoO~", c) >= 0:
		switch s {
		case "true", "True", "TRUE", "false", "False", "FALSE":
			return "!!bool"
		case "~", "null", "Null", "NULL":
			return "!!null"
		}
	case c >= '1' && c <= '9' && len(s) < 18 && digits(s):
		return "!!int"
	case c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.':
		return (&yaml.Node{Kind: yaml.ScalarNode, Value: s}).ShortTag()
	}
	return "!!str"
}
