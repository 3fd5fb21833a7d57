package strictjson

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Unescape reads what stands between the quotes of a string (RFC 8259 section 7). Ok is
// false where that is no string, or one that goes on behind a quote in it. Whether it is
// UTF-8 is not looked at.
func Unescape(between []byte) (text string, ok bool) {
	p := parser{data: append(slices.Clone(between), '"')}
	text, err := p.escapedText(0)
	return text, err == nil && p.pos == len(p.data)
}

func (p *parser) text() (string, *Error) {
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

func (p *parser) escapedText(start int) (string, *Error) {
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
func (p *parser) escape() (rune, *Error) {
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

func (p *parser) hex4() (rune, *Error) {
	if p.pos+4 > len(p.data) {
		return 0, p.fail("short escape")
	}
	r, err := strconv.ParseUint(string(p.data[p.pos:p.pos+4]), 16, 32) // no sign, no underscore
	if err != nil {
		return 0, p.fail("bad escape")
	}
	p.pos += 4
	return rune(r), nil
}
