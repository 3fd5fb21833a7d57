package classifier

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	mostDepth  = 200 // nested arrays and objects
	mostDigits = 400 // characters of one number; a float64 written out in full fits
)

// parseJSON reads one JSON document (RFC 8259) as strictly as any reader would:
// no duplicate names, no lone surrogates, no byte order mark, nothing after it.
// Numbers keep their digits as [json.Number].
func parseJSON(data []byte) (any, *Error) {
	if !utf8.Valid(data) {
		return nil, badInput(reasonInvalidJSON, "the body is not UTF-8")
	}
	p := jsonParser{data: data}
	p.space()
	value, err := p.value()
	if err != nil {
		return nil, err
	}
	if p.space(); p.pos < len(p.data) {
		return nil, badInput(reasonTrailingData, "the body goes on after the JSON document, at offset %d (documents in lines are application/x-ndjson)", p.pos)
	}
	return value, nil
}

type jsonParser struct {
	data  []byte
	pos   int
	depth int
}

func (p *jsonParser) fail(what string) *Error {
	return badInput(reasonInvalidJSON, "the body is not valid JSON: %s at offset %d", what, p.pos)
}

func (p *jsonParser) space() {
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
func (p *jsonParser) peek() byte {
	if p.pos < len(p.data) {
		return p.data[p.pos]
	}
	return 0
}

func (p *jsonParser) value() (any, *Error) {
	switch c := p.peek(); {
	case c == '{':
		return p.nested((*jsonParser).object)
	case c == '[':
		return p.nested((*jsonParser).array)
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

func (p *jsonParser) nested(read func(*jsonParser) (any, *Error)) (any, *Error) {
	if p.depth++; p.depth > mostDepth {
		return nil, p.fail("nested too deeply")
	}
	p.pos++
	p.space()
	value, err := read(p)
	p.depth--
	return value, err
}

func (p *jsonParser) word(word string) *Error {
	if !strings.HasPrefix(string(p.data[p.pos:min(len(p.data), p.pos+len(word))]), word) {
		return p.fail("unknown word")
	}
	p.pos += len(word)
	return nil
}

func (p *jsonParser) object() (any, *Error) {
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
			return nil, badInput(reasonDuplicateKey, "the JSON body has the member %s twice in one object", shown(name))
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

func (p *jsonParser) array() (any, *Error) {
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
func (p *jsonParser) next(closing byte) (end bool, err *Error) {
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

func (p *jsonParser) text() (string, *Error) {
	p.pos++
	start := p.pos
	for p.pos < len(p.data) {
		switch c := p.data[p.pos]; {
		case c == '"':
			s := string(p.data[start:p.pos])
			p.pos++
			return s, nil
		case c == '\\':
			return p.escapedText(start)
		case c < ' ':
			return "", p.fail("control byte in a string")
		}
		p.pos++
	}
	return "", p.fail("string without end")
}

func (p *jsonParser) escapedText(start int) (string, *Error) {
	out := append([]byte(nil), p.data[start:p.pos]...)
	for p.pos < len(p.data) {
		c := p.data[p.pos]
		switch {
		case c == '"':
			p.pos++
			return string(out), nil
		case c < ' ':
			return "", p.fail("control byte in a string")
		case c != '\\':
			out = append(out, c)
			p.pos++
			continue
		}
		p.pos++
		r, err := p.escape()
		if err != nil {
			return "", err
		}
		out = utf8.AppendRune(out, r)
	}
	return "", p.fail("string without end")
}

// escape reads what follows a backslash.
func (p *jsonParser) escape() (rune, *Error) {
	const plain, means = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	c := p.peek()
	if i := strings.IndexByte(plain, c); i >= 0 && c != 0 {
		p.pos++
		return rune(means[i]), nil
	}
	if c != 'u' {
		return 0, p.fail("unknown escape")
	}
	p.pos++
	r, err := p.hex4()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if p.peek() != '\\' || p.pos+1 >= len(p.data) || p.data[p.pos+1] != 'u' {
		return 0, p.fail("half a surrogate pair")
	}
	p.pos += 2
	low, err := p.hex4()
	if err != nil {
		return 0, err
	}
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return 0, p.fail("half a surrogate pair")
	}
	return r, nil
}

func (p *jsonParser) hex4() (rune, *Error) {
	if p.pos+4 > len(p.data) {
		return 0, p.fail("short escape")
	}
	var r rune
	for range 4 {
		digit, ok := fromHex(p.data[p.pos])
		if !ok {
			return 0, p.fail("bad escape")
		}
		r = r<<4 | rune(digit)
		p.pos++
	}
	return r, nil
}

func (p *jsonParser) number() (any, *Error) {
	start := p.pos
	for p.pos < len(p.data) && strings.IndexByte("+-.0123456789eE", p.data[p.pos]) >= 0 {
		p.pos++
	}
	text := string(p.data[start:p.pos])
	if err := checkNumber(text); err != nil {
		p.pos = start
		return nil, p.fail(err.Error())
	}
	return json.Number(text), nil
}

// checkNumber accepts what RFC 8259 section 6 calls a number, if a float64 is
// near it. 1e400 and 1e-400 are infinite or zero to most readers, and something
// else to the others.
func checkNumber(text string) error {
	if !numberText(text) {
		return errors.New("not a number")
	}
	f, err := strconv.ParseFloat(text, 64)
	mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
	if err != nil || f == 0 && strings.ContainsAny(mantissa, "123456789") {
		return errors.New("a number out of range")
	}
	return nil
}

// numberText reports whether text is a JSON number of bearable length.
func numberText(text string) bool { return len(text) <= mostDigits && IsNumber(text) }

// IsNumber reports whether text is a number as JSON writes it (RFC 8259 section 6), of
// any length.
func IsNumber(text string) bool {
	s := strings.TrimPrefix(text, "-")
	whole := len(s) - len(strings.TrimLeft(s, "0123456789"))
	if whole == 0 || whole > 1 && s[0] == '0' {
		return false
	}
	s = s[whole:]
	if fraction, ok := strings.CutPrefix(s, "."); ok {
		digits := len(fraction) - len(strings.TrimLeft(fraction, "0123456789"))
		if digits == 0 {
			return false
		}
		s = fraction[digits:]
	}
	if s == "" {
		return true
	}
	if s[0] != 'e' && s[0] != 'E' {
		return false
	}
	s = s[1:]
	if s != "" && (s[0] == '+' || s[0] == '-') {
		s = s[1:]
	}
	return isDigits(s)
}
