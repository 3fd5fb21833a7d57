package gate

import (
	"strings"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// A parser and a compiler recurse: once for each bracket, and once for each operator
// of a chain. What they may be given is bounded here, far below what a stack of 64 MiB
// holds (a bracket costs a parser about 4 KiB of it).
const (
	maxDepth = 400  // brackets inside each other
	maxRun   = 4000 // tokens of the statements that a place is inside of
	maxAngle = 200  // signs "<" in one statement: types inside types
)

// scanner cuts code into tokens, without recursion.
//
// What it takes for a text, a comment or a regular expression must be what a parser
// takes for one: else brackets could hide from it. One thing only depends on grammar,
// whether a slash divides. Where that is open and makes a difference, the code is refused.
type scanner struct {
	user   user
	code   string
	at     int
	tokens []token
	after  follow // what the last token leaves behind
	line   bool   // a line ended since the last token
	open   []bracket
	base   int // tokens before the innermost open bracket, in all statements that hold it
	run    int // tokens of the statement inside it
	angle  int
	found  []frame.Refusal
	parsed bool // the text has been: nothing of it is too much
}

// bracket is an open one.
type bracket struct {
	token     int
	sign      byte // ( [ {, or $ for the hole of a template
	head      bool // a ( of if, while, for: no operand ends with its )
	base, run int  // outside it
	angle     int
}

// scan cuts the code into tokens, and refuses what no parser must see.
func scan(u user) ([]token, []frame.Refusal) {
	s := &scanner{user: u, code: u.code()}
	switch {
	case len(u.source) > MaxSource:
		return nil, []frame.Refusal{{Line: 1, Column: 1, Message: "The source is longer than 64 KiB"}}
	case !utf8.ValidString(u.source):
		return nil, []frame.Refusal{{Line: 1, Column: 1, Message: "The source is not valid UTF-8"}}
	case strings.HasPrefix(s.code, "#!"):
		s.refuse(0, "A hashbang is not allowed in sandboxed code")
	}
	s.all()
	if len(s.found) == 0 && len(s.open) > 0 {
		last := s.tokens[s.open[len(s.open)-1].token]
		s.refuse(last.start, "Unexpected end of input: "+s.code[last.end-1:last.end]+" is never closed")
	}
	return s.tokens, s.found
}

// all reads the tokens, up to what is refused.
func (s *scanner) all() {
	for len(s.found) == 0 && s.space() {
		s.next()
	}
}

func (s *scanner) refuse(at int, message string) {
	s.found = append(s.found, s.user.refuse(at, message))
	s.at = len(s.code)
}

// space skips to the next token. It is false at the end.
func (s *scanner) space() bool {
	for s.at < len(s.code) {
		rest := s.code[s.at:]
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case isLineEnd(r):
			s.line = true
			s.at += size
		case isSpace(r):
			s.at += size
		case strings.HasPrefix(rest, "//"):
			s.at += lineLength(rest)
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				s.refuse(s.at, "Unterminated comment")
				return false
			}
			s.line = s.line || strings.ContainsAny(rest[:end], "\n\r\u2028\u2029")
			s.at += end + 4
		case strings.HasPrefix(rest, "<!--"), strings.HasPrefix(rest, "-->") && (s.line || len(s.tokens) == 0):
			s.refuse(s.at, "HTML-like comments are not allowed in sandboxed code")
			return false
		default:
			return true
		}
	}
	return false
}

// next reads one token.
func (s *scanner) next() {
	rest := s.code[s.at:]
	c := rest[0]
	switch {
	case isWordByte(c) && !isDigit(c), c == '\\', c == '#':
		s.word(rest)
	case isDigit(c), c == '.' && len(rest) > 1 && isDigit(rest[1]):
		s.emit(number, numberLength(rest), operand)
	case c == '"' || c == '\'':
		s.quoted(rest, c)
	case c == '`':
		s.piece(rest)
	case c == '}' && len(s.open) > 0 && s.open[len(s.open)-1].sign == '$':
		s.shut(c)
		s.piece(rest)
	case c == '/':
		s.slash(rest)
	case strings.IndexByte("([{", c) >= 0:
		s.push(c)
	case strings.IndexByte(")]}", c) >= 0:
		s.shut(c)
	default:
		s.sign(rest)
	}
}

// emit adds a token, and counts it.
func (s *scanner) emit(k kind, size int, after follow) {
	s.count(k, s.code[s.at:s.at+size])
	s.tokens = append(s.tokens, token{kind: k, line: s.line, start: s.at, end: s.at + size})
	s.at += size
	s.after, s.line = after, false
}

// previous is the text of the last token.
func (s *scanner) previous() string {
	if len(s.tokens) == 0 {
		return ""
	}
	last := s.tokens[len(s.tokens)-1]
	return s.code[last.start:last.end]
}

// word reads a name or a keyword.
func (s *scanner) word(rest string) {
	size := 1
	if rest[0] == '\\' {
		size = 0
	}
	for size < len(rest) {
		r, n := utf8.DecodeRuneInString(rest[size:])
		if r == '\\' {
			if n = escapeLength(rest[size:]); n == 0 {
				s.refuse(s.at+size, "Unexpected character \\")
				return
			}
		} else if r < utf8.RuneSelf && !isWordByte(byte(r)) || isSpace(r) || isLineEnd(r) {
			break
		}
		size += n
	}
	after := operand
	if p := s.previous(); p != "." && p != "?." {
		after = afterWord(rest[:size])
	}
	s.emit(word, size, after)
}

// quoted reads a text in quotes.
func (s *scanner) quoted(rest string, quote byte) {
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case quote:
			s.emit(text, i+1, operand)
			return
		case '\\':
			if i++; strings.HasPrefix(rest[i:], "\r\n") {
				i++
			}
		case '\n', '\r':
			i = len(rest)
		}
	}
	s.refuse(s.at, "Unterminated string")
}

// piece reads a template up to its end or its next hole. rest starts with the
// back quote, or with the brace that ends a hole.
func (s *scanner) piece(rest string) {
	for i := 1; i < len(rest); i++ {
		switch {
		case rest[i] == '`':
			s.emit(template, i+1, operand)
			return
		case rest[i] == '\\':
			i++
		case strings.HasPrefix(rest[i:], "${"):
			s.emit(template, i+2, operator)
			s.enter('$', len(s.tokens)-1)
			return
		}
	}
	s.refuse(s.at, "Unterminated template")
}

// slash reads what starts with one: a division, or a regular expression.
func (s *scanner) slash(rest string) {
	size := regexLength(rest)
	switch {
	case s.after == operand, s.after == unsure && size == 0:
		s.sign(rest)
	case size == 0:
		s.refuse(s.at, "Unterminated regular expression")
	case s.after == unsure && strings.ContainsAny(rest[1:strings.LastIndexByte(rest[:size], '/')], "\"'`()[]{}/*"):
		s.refuse(s.at, "A regular expression cannot start here: put it in parentheses")
	case s.after == unsure:
		s.sign(rest)
	default:
		s.emit(regex, size, operand)
	}
}

// sign reads an operator.
func (s *scanner) sign(rest string) {
	size, after := 1, operator
	switch {
	case strings.HasPrefix(rest, "++"), strings.HasPrefix(rest, "--"):
		size = 2
		if !s.line {
			after = s.after
		}
	case strings.HasPrefix(rest, "..."):
		size = 3
	case strings.HasPrefix(rest, "=>"):
		size = 2
	case strings.HasPrefix(rest, "?.") && !(len(rest) > 2 && isDigit(rest[2])):
		size = 2
	case rest[0] == '!' && !strings.HasPrefix(rest, "!=") && !s.line:
		after = s.after // x! of TypeScript
	case rest[0] == '>':
		after = unsure // the end of a type, or a comparison
	}
	_, n := utf8.DecodeRuneInString(rest)
	s.emit(punct, max(size, n), after)
}
