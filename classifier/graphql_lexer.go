package classifier

import "strings"

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

// graphqlLexer cuts a document into tokens (GraphQL specification, section 2.1).
// It is strict where a mistake could hide a bracket from us and not from a
// server: strings, comments and characters that stand nowhere are checked.
type graphqlLexer struct {
	src string
	pos int
}

// next returns the next token. After tokInvalid the document is of no use.
func (l *graphqlLexer) next() token {
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
	case nameStart(c):
		for l.pos < len(l.src) && (nameStart(l.src[l.pos]) || digit(l.src[l.pos])) {
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
func (l *graphqlLexer) skipIgnored() {
	for l.pos < len(l.src) {
		switch c := l.src[l.pos]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',':
			l.pos++
		case c == '#':
			end := strings.IndexAny(l.src[l.pos:], "\r\n")
			if end < 0 {
				l.pos = len(l.src)
				return
			}
			l.pos += end
		case strings.HasPrefix(l.src[l.pos:], "\ufeff"):
			l.pos += len("\ufeff")
		default:
			return
		}
	}
}

func (l *graphqlLexer) number() token {
	start := l.pos
	for l.pos < len(l.src) && (strings.IndexByte("+-.", l.src[l.pos]) >= 0 || digit(l.src[l.pos]) || nameStart(l.src[l.pos])) {
		l.pos++
	}
	text := l.src[start:l.pos]
	if !numberText(text) {
		return token{}
	}
	return token{tokNumber, text}
}

func (l *graphqlLexer) shortString() token {
	start := l.pos
	for l.pos++; l.pos < len(l.src); l.pos++ {
		switch c := l.src[l.pos]; {
		case c == '"':
			l.pos++
			return token{tokString, l.src[start:l.pos]}
		case c == '\n' || c == '\r':
			return token{}
		case c == '\\':
			l.pos++
			if l.pos == len(l.src) || strings.IndexByte(`"\/bfnrtu`, l.src[l.pos]) < 0 {
				return token{}
			}
		}
	}
	return token{}
}

func (l *graphqlLexer) blockString() token {
	start := l.pos
	for l.pos += 3; l.pos < len(l.src); l.pos++ {
		switch rest := l.src[l.pos:]; {
		case strings.HasPrefix(rest, `\"""`):
			l.pos += 3
		case strings.HasPrefix(rest, `"""`):
			l.pos += 3
			return token{tokString, l.src[start:l.pos]}
		}
	}
	return token{}
}

func nameStart(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func digit(c byte) bool     { return c >= '0' && c <= '9' }
