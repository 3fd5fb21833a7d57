package classifier

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// CheckTarget refuses a raw request-target (origin form, RFC 9112 section
// 3.2.1) that two readers could understand differently: dot segments in any
// encoding, empty segments other than the last, backslashes, control bytes raw
// or encoded, fragments, bad percent escapes, bytes that are not ASCII, and
// anything that is not origin form. The error is an [*Error] with code
// ambiguous_target. [Table.Match] makes the same check.
func CheckTarget(target string) error {
	var t path
	if err := t.split(target); err != nil {
		return err
	}
	return nil
}

// segment is one piece of a raw path between slashes.
type segment struct {
	text    string
	special bool // holds "%" or ";": not every reader sees the same text
}

// path is a raw target split before decoding.
type path struct {
	first   [24]segment // room for common paths that costs no allocation
	more    []segment
	count   int
	query   string
	slashes bool // %2F or %5C in some segment
	deep    bool // one that is decoded more than once
	twice   bool // some segment is another text when it is decoded more than once
	params  bool // ";", or an encoded "?" or "#", in some segment: some server reads on otherwise there
	marked  bool // this is a path up to an encoded "?" or "#"
}

func (t *path) split(target string) *Error {
	if target == "" || target[0] != '/' {
		return badTarget(reasonInvalidTarget, "the request target must start with a slash")
	}
	start, special, end := 1, false, len(target)
scan:
	for i := 1; i < len(target); i++ {
		switch c := target[i]; {
		case c == '/':
			if err := t.add(target[start:i], special, false); err != nil {
				return err
			}
			start, special = i+1, false
		case c == '?':
			end = i
			break scan
		case c == '%':
			special = true
			if err := t.checkEscape(target, i); err != nil {
				return err
			}
		case c == ';':
			special = true
		case c <= ' ' || c >= 0x7f || c == '\\' || c == '#':
			return badTarget(reasonInvalidTarget, "byte 0x%02x at offset %d may not stand in a path", c, i)
		}
	}
	if err := t.add(target[start:end], special, true); err != nil {
		return err
	}
	if end == len(target) {
		return nil
	}
	t.query = target[end+1:]
	return checkQuery(t.query)
}

func (t *path) add(text string, special, last bool) *Error {
	if text == "" && !last {
		return badTarget(reasonEmptySegment, "the path has an empty segment (\"//\")")
	}
	if err := t.checkSegment(text, special); err != nil {
		return err
	}
	t.push(segment{text, special})
	return nil
}

// EncodedSlash reports whether a path holds %2F or %5C, which only routes with AllowSlash take.
func EncodedSlash(target string) bool {
	var t path
	return t.split(target) == nil && t.slashes
}

func (t *path) push(s segment) {
	if t.count < len(t.first) {
		t.first[t.count] = s
	} else {
		t.more = append(t.more, s)
	}
	t.count++
}

func (t *path) at(i int) segment {
	if i < len(t.first) {
		return t.first[i]
	}
	return t.more[i-len(t.first)]
}

func (t *path) checkEscape(target string, i int) *Error {
	c, ok := escaped(target, i)
	switch {
	case !ok:
		return badTarget(reasonInvalidTarget, "the percent escape at offset %d is not valid", i)
	case c < ' ' || c == 0x7f:
		return badTarget(reasonInvalidTarget, "the path holds the encoded control byte 0x%02x", c)
	case c == '/' || c == '\\':
		t.slashes = true
	}
	return nil
}

// checkQuery keeps the query readable in one way. Encoded line breaks and tabs
// are ordinary text there; NUL is not.
func checkQuery(query string) *Error {
	for i := 0; i < len(query); i++ {
		switch c := query[i]; {
		case c == '%':
			b, ok := escaped(query, i)
			if !ok {
				return badTarget(reasonInvalidTarget, "a percent escape in the query is not valid")
			}
			if b == 0 {
				return badTarget(reasonInvalidTarget, "the query holds an encoded NUL")
			}
		case c <= ' ' || c >= 0x7f || c == '#':
			return badTarget(reasonInvalidTarget, "byte 0x%02x may not stand in a query", c)
		}
	}
	return nil
}

// enders are the characters that end a path to some server: that of parameters, and, once
// they are decoded, those of a query and a fragment.
const enders = ";?#"

// mostDecodings is how often a segment may be decoded on its way, by one server
// behind another.
const mostDecodings = 4

// trimAround cuts off what some server drops around a fixed part: blanks, line breaks, dots.
func trimAround(text []byte) []byte {
	for len(text) > 0 && isAround(text[0]) {
		text = text[1:]
	}
	for len(text) > 0 && isAround(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	return text
}

func isAround(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' || c == '.' }

// overlong reports whether there is a letter in more bytes than it needs, which old readers of
// UTF-8 take for it: C0 AF for a slash. Other bytes that are no UTF-8 may be of another charset.
func overlong(text []byte) bool {
	for i := range len(text) - 1 {
		switch next := text[i+1]; text[i] {
		case 0xc0, 0xc1:
			if next >= 0x80 && next <= 0xbf {
				return true
			}
		case 0xe0:
			if next >= 0x80 && next <= 0x9f {
				return true
			}
		case 0xf0:
			if next >= 0x80 && next <= 0x8f {
				return true
			}
		}
	}
	return false
}

// checkSegment refuses a NUL, and what some reader could take for "." or "..", as a whole
// or in part: after one or more decodings, with encoded separators taken as
// separators, and up to a ";", "?" or "#".
func (t *path) checkSegment(text string, special bool) *Error {
	dots, bare, odd := text == "." || text == "..", false, false
	if special {
		var space [256]byte
		decoded := appendUnescaped(space[:0], text)
		if !utf8.Valid(decoded) {
			return badTarget(reasonInvalidTarget, "the path does not decode to UTF-8")
		}
		dots, bare = oddPart(decoded)
		t.params = t.params || bytes.ContainsAny(decoded, enders)
		for i := 1; i < mostDecodings && !dots && !bare && bytes.IndexByte(decoded, '%') >= 0; i++ {
			before := len(decoded)
			decoded = appendUnescaped(decoded[:0], decoded)
			t.twice = t.twice || len(decoded) < before
			dots, bare = oddPart(decoded)
			odd = odd || bytes.IndexByte(decoded, 0) >= 0 || overlong(decoded)
			t.params = t.params || bytes.ContainsAny(decoded, enders)
			t.deep = t.deep || bytes.ContainsAny(decoded, `/\`)
		}
	}
	switch {
	case dots:
		return badTarget(reasonDotSegment, "the path has a \".\" or \"..\" segment")
	case odd:
		return badTarget(reasonInvalidTarget, "the path holds a NUL, or an overlong letter, that is encoded more than once")
	case bare:
		return badTarget(reasonEmptySegment, "the path has a segment that is empty but for its \";\" parameters")
	}
	return nil
}

// oddPart reports whether a part of a decoded segment is one of dots, or nothing but
// parameters: Tomcat takes "/;x/a" for "//a", and that for "/a".
func oddPart(text []byte) (dots, bare bool) {
	for len(text) > 0 {
		part := text
		if end := bytes.IndexAny(text, `/\`); end >= 0 {
			part, text = text[:end], text[end+1:]
		} else {
			text = nil
		}
		if end := bytes.IndexAny(part, enders); end >= 0 {
			part, bare = part[:end], bare || end == 0 && part[0] == ';'
		}
		if string(part) == "." || string(part) == ".." {
			return true, bare
		}
	}
	return false, bare
}

// unescape decodes a path segment that has passed the target check. Without an
// escape it returns its argument and allocates nothing.
func unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	return string(appendUnescaped(make([]byte, 0, len(s)), s))
}

// appendUnescaped decodes what is a valid escape and leaves the rest alone. It
// never writes ahead of what it reads, so dst may be the start of s itself.
func appendUnescaped[T string | []byte](dst []byte, s T) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			if b, ok := escaped(s, i); ok {
				c = b
				i += 2
			}
		}
		dst = append(dst, c)
	}
	return dst
}

// escaped returns the byte that the escape at s[i] stands for.
func escaped[T string | []byte](s T, i int) (byte, bool) {
	if i+2 >= len(s) {
		return 0, false
	}
	hi, ok1 := fromHex(s[i+1])
	lo, ok2 := fromHex(s[i+2])
	return hi<<4 | lo, ok1 && ok2
}

func fromHex(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
