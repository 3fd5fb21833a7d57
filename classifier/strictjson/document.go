// Package strictjson reads JSON (RFC 8259) as strictly as any reader would.
//
// It refuses what is no JSON, and of what is some what readers read differently or not
// at all: a name that stands twice in an object, half a surrogate pair, a byte order mark,
// text that is not UTF-8, anything behind the document, a number that no float64 is near,
// numbers of more than 400 characters and more than 200 arrays and objects in one another.
// It repairs nothing and does no IO; what a document means is for whoever asks.
//
// Start reading at [Parse].
package strictjson

import (
	"strings"
	"unicode/utf8"
)

// mostDepth bounds nested arrays and objects.
const mostDepth = 200

// Parse reads one document. An object becomes a map[string]any, an array a []any, and a
// number keeps its digits as [json.Number]; the rest is a string, a bool or nil. With an
// error there is no value.
func Parse(data []byte) (any, *Error) {
	if !utf8.Valid(data) {
		return nil, &Error{Kind: NotUTF8}
	}
	p := parser{data: data}
	p.space()
	value, err := p.value()
	if err != nil {
		return nil, err
	}
	if p.space(); p.pos < len(p.data) {
		return nil, &Error{Kind: TrailingData, Offset: p.pos}
	}
	return value, nil
}

type parser struct {
	data  []byte
	pos   int
	depth int
}

func (p *parser) fail(what string) *Error {
	return &Error{Kind: Invalid, Offset: p.pos, What: what}
}

func (p *parser) space() {
	for p.pos < len(p.data) {
		switch p.data[p.pos] {
		case ' ', '\t', '\r', '\n':
			p.pos++
		default:
			return
		}
	}
}

// peek returns the next byte, 0 at the end. A raw NUL is nowhere valid.
func (p *parser) peek() byte {
	if p.pos < len(p.data) {
		return p.data[p.pos]
	}
	return 0
}

func (p *parser) value() (any, *Error) {
	switch c := p.peek(); {
	case c == '{':
		return p.nested((*parser).object)
	case c == '[':
		return p.nested((*parser).array)
	case c == '"':
		return p.text()
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	case c == 't':
		return true, p.word("true")
	case c == 'f':
		return false, p.word("false")
	case c == 'n':
		return nil, p.word("null")
	}
	return nil, p.fail("no value")
}

func (p *parser) nested(read func(*parser) (any, *Error)) (any, *Error) {
	if p.depth++; p.depth > mostDepth {
		return nil, p.fail("nested too deeply")
	}
	p.pos++
	p.space()
	value, err := read(p)
	p.depth--
	return value, err
}

func (p *parser) word(word string) *Error {
	if !strings.HasPrefix(string(p.data[p.pos:min(len(p.data), p.pos+len(word))]), word) {
		return p.fail("unknown word")
	}
	p.pos += len(word)
	return nil
}

func (p *parser) object() (any, *Error) {
	members := map[string]any{}
	if p.peek() == '}' {
		p.pos++
		return members, nil
	}
	for {
		if p.peek() != '"' {
			return nil, p.fail("no member name")
		}
		name, err := p.text()
		if err != nil {
			return nil, err
		}
		if _, ok := members[name]; ok {
			return nil, &Error{Kind: DuplicateName, Offset: p.pos, Name: name}
		}
		if p.space(); p.peek() != ':' {
			return nil, p.fail("no colon")
		}
		p.pos++
		p.space()
		if members[name], err = p.value(); err != nil {
			return nil, err
		}
		if end, err := p.next('}'); end || err != nil {
			return members, err
		}
	}
}

func (p *parser) array() (any, *Error) {
	elements := []any{}
	if p.peek() == ']' {
		p.pos++
		return elements, nil
	}
	for {
		value, err := p.value()
		if err != nil {
			return nil, err
		}
		elements = append(elements, value)
		if end, err := p.next(']'); end || err != nil {
			return elements, err
		}
	}
}

// next reads what follows a member or an element: a comma, or the end.
func (p *parser) next(closing byte) (end bool, err *Error) {
	p.space()
	switch p.peek() {
	case closing:
		p.pos++
		return true, nil
	case ',':
		p.pos++
		p.space()
		return false, nil
	}
	return false, p.fail("no comma")
}
