package graphql

import (
	"strings"

	"github.com/kimbap-run/kimbap/classifier/strictjson"
)

type tokenKind uint8

const (
	tokInvalid tokenKind = iota
	tokEnd
	tokPunctuator
	tokName
	tokNumber
	tokString
)

type token struct {
	kind tokenKind
	text string
}

func (t token) is(c byte) bool { return t.kind == tokPunctuator && t.text[0] == c && len(t.text) == 1 }

// lexer cuts a document into tokens (GraphQL specification, section 2.1).
// It is strict where a mistake could hide a bracket from us and not from a
// server: strings, comments and characters that stand nowhere are checked, and
// what servers' own lexers read in different ways is no token.
type lexer struct {
	src string
	pos int
}

// next returns the next token. After tokInvalid the document is of no use.
func (l *lexer) next() token {
	l.skipIgnored()
	if l.pos == len(l.src) {
		return token{kind: tokEnd}
	}
	start := l.pos
	switch c := l.src[l.pos]; {
	case strings.HasPrefix(l.src[l.pos:], "..."):
		l.pos += 3
		return token{tokPunctuator, "..."}
	case strings.IndexByte("!$&()@:=[]{|}?", c) >= 0:
		l.pos++
		return token{tokPunctuator, l.src[start:l.pos]}
	case NameStart(c):
		for l.pos < len(l.src) && NameContinue(l.src[l.pos]) {
			l.pos++
		}
		return token{tokName, l.src[start:l.pos]}
	case c == '-' || digit(c):
		return l.number()
	case strings.HasPrefix(l.src[l.pos:], `"""`):
		return l.blockString()
	case c == '"':
		return l.shortString()
	}
	return token{}
}

// skipIgnored passes white space, line ends, commas, comments and byte order
// marks.
func (l *lexer) skipIgnored() {
	for l.pos < len(l.src) {
		switch c := l.src[l.pos]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',':
			l.pos++
		case c == '#':
			length, ok := commentLength(l.src[l.pos:])
			if !ok {
				return // no token begins with "#"
			}
			l.pos += length
		case strings.HasPrefix(l.src[l.pos:], "\ufeff"):
			l.pos += len("\ufeff")
		default:
			return
		}
	}
}

// commentLength is how far a comment goes. Not every lexer ends it at a carriage
// return without a line feed, and some do at U+2028 and U+2029, which older
// drafts counted among the line ends, or at other ones of Unicode.
func commentLength(text string) (int, bool) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n':
			return i, true
		case c == '\r':
			return i, strings.HasPrefix(text[i+1:], "\n")
		case c < ' ' && c != '\t', strings.HasPrefix(text[i:], "\u0085"),
			strings.HasPrefix(text[i:], "\u2028"), strings.HasPrefix(text[i:], "\u2029"):
			return 0, false
		}
	}
	return len(text), true
}

func (l *lexer) number() token {
	start := l.pos
	for l.pos < len(l.src) && (strings.IndexByte("+-.", l.src[l.pos]) >= 0 || NameContinue(l.src[l.pos])) {
		l.pos++
	}
	text := l.src[start:l.pos]
	if !strictjson.IsShortNumber(text) {
		return token{}
	}
	return token{tokNumber, text}
}

func (l *lexer) shortString() token {
	start := l.pos
	for l.pos++; l.pos < len(l.src); l.pos++ {
		switch c := l.src[l.pos]; {
		case c == '"':
			l.pos++
			return token{tokString, l.src[start:l.pos]}
		case c < ' ' && c != '\t':
			return token{}
		case c == '\\':
			l.pos++
			if l.pos == len(l.src) || strings.IndexByte(`"\/bfnrtu`, l.src[l.pos]) < 0 || l.src[l.pos] == 'u' && !unicodeEscape(l.src[l.pos+1:]) {
				return token{}
			}
		}
	}
	return token{}
}

// unicodeEscape reports whether the digits of an escape follow, so that none of them
// is the quote that ends the string.
func unicodeEscape(text string) bool {
	if rest, braced := strings.CutPrefix(text, "{"); braced {
		digits, _, closed := strings.Cut(rest, "}")
		return closed && digits != "" && isHexDigits(digits)
	}
	return len(text) >= 4 && isHexDigits(text[:4])
}

func isHexDigits(s string) bool { return strings.Trim(s, "0123456789abcdefABCDEF") == "" }

// blockString reads to the three quotes that end it. Behind a backslash they are
// text. Four quotes, or two backslashes before three, end it for some lexers and
// not for others.
func (l *lexer) blockString() token {
	start := l.pos
	slashes := 0
	for l.pos += 3; l.pos < len(l.src); l.pos++ {
		switch l.src[l.pos] {
		case '\\':
			slashes++
			continue
		case '"':
			quotes := len(l.src[l.pos:]) - len(strings.TrimLeft(l.src[l.pos:], `"`))
			if quotes < 3 {
				l.pos += quotes - 1
				break
			}
			if quotes > 3 || slashes > 1 {
				return token{}
			}
			l.pos += 3
			if slashes == 0 {
				return token{tokString, l.src[start:l.pos]}
			}
			l.pos--
		}
		slashes = 0
	}
	return token{}
}

// NameStart reports whether a name may begin with c (section 2.1.9).
func NameStart(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// NameContinue reports whether c may stand in a name.
func NameContinue(c byte) bool { return NameStart(c) || digit(c) }

func digit(c byte) bool { return c >= '0' && c <= '9' }
