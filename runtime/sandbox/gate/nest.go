package gate

import (
	"strings"
	"unicode"
)

// push reads a bracket that opens.
func (s *scanner) push(c byte) {
	head := false
	if c == '(' && len(s.tokens) > 0 && s.tokens[len(s.tokens)-1].kind == word && !s.isProperty() {
		switch s.previous() {
		case "if", "while", "for", "with":
			head = true
		case "await":
			head = len(s.tokens) > 1 && s.wordAt(len(s.tokens)-2) == "for"
		}
	}
	s.emit(punct, 1, operator)
	s.enter(c, len(s.tokens)-1)
	if len(s.open) > 0 {
		s.open[len(s.open)-1].head = head
	}
}

// isProperty reports whether the last token is a property's name: a.if
func (s *scanner) isProperty() bool {
	before := s.wordAt(len(s.tokens) - 2)
	return before == "." || before == "?."
}

func (s *scanner) wordAt(i int) string {
	if i < 0 {
		return ""
	}
	return s.code[s.tokens[i].start:s.tokens[i].end]
}

// enter goes inside the bracket that is the token at an index.
func (s *scanner) enter(sign byte, token int) {
	s.open = append(s.open, bracket{token: token, sign: sign, base: s.base, run: s.run, angle: s.angle})
	s.base += s.run
	s.run, s.angle = 0, 0
	if len(s.open) > maxDepth && !s.parsed {
		s.refuse(s.at-1, "The code nests too deep")
	}
}

// shut reads a bracket that closes; of a template's hole it only leaves it.
func (s *scanner) shut(c byte) {
	if len(s.open) == 0 || closing(s.open[len(s.open)-1].sign) != c {
		s.refuse(s.at, "Unexpected token "+string(c))
		return
	}
	b := s.open[len(s.open)-1]
	s.open = s.open[:len(s.open)-1]
	s.base, s.run, s.angle = b.base, b.run, b.angle
	if b.sign == '$' {
		return
	}
	after := operand
	if b.head {
		after = operator
	} else if c == '}' {
		after = unsure
	}
	s.tokens[b.token].match = len(s.tokens)
	s.emit(punct, 1, after)
}

func closing(sign byte) byte {
	switch sign {
	case '(':
		return ')'
	case '[':
		return ']'
	}
	return '}'
}

// count counts a token in its statement, or starts to count anew when a statement, or
// an element of a list, has ended before it.
func (s *scanner) count(k kind, now string) {
	before := s.previous()
	switch {
	case before == ",":
		s.run = 0
	case before == ";" && now != "else" && now != "while":
		s.run, s.angle = 0, 0
	case before == "}" && starts(k, now), s.line && s.after == operand && !prefixes(before) && starts(k, now):
		s.run, s.angle = 0, 0
	}
	s.run++
	if now == "<" {
		s.angle++
	}
	if (s.base+s.run > maxRun || s.angle > maxAngle) && !s.parsed {
		s.refuse(s.at, "This statement is too long")
	}
}

// starts reports whether a token that follows an operand starts a new statement.
func starts(k kind, now string) bool {
	return (k == word && !continues(now)) || k == number || k == text
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isWordByte(c byte) bool {
	return c >= 0x80 || c == '_' || c == '$' || isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z'
}

func isLineEnd(r rune) bool { return r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029' }

func isSpace(r rune) bool {
	return r == ' ' || r == '\t' || r == '\v' || r == '\f' || r == '\ufeff' || (r > 0x7f && unicode.Is(unicode.Zs, r))
}

// lineLength is the length of a text up to the end of its first line.
func lineLength(text string) int {
	if end := strings.IndexAny(text, "\n\r\u2028\u2029"); end >= 0 {
		return end
	}
	return len(text)
}

// escapeLength is that of \uXXXX or \u{X}, or 0.
func escapeLength(text string) int {
	if !strings.HasPrefix(text, "\\u") {
		return 0
	}
	if strings.HasPrefix(text, "\\u{") {
		return strings.IndexByte(text[:min(len(text), 12)], '}') + 1
	}
	if len(text) < 6 {
		return 0
	}
	return 6
}

// numberLength is that of a number. It may take more than a parser does of what is
// no number, but never a bracket, a quote or a slash.
func numberLength(text string) int {
	for i := 1; i < len(text); i++ {
		c := text[i]
		sign := (c == '+' || c == '-') && text[i-1]|0x20 == 'e' && !strings.HasPrefix(text, "0x") && !strings.HasPrefix(text, "0X")
		if !sign && c != '.' && (c >= 0x80 || !isWordByte(c)) {
			return i
		}
		if c == '.' && strings.HasPrefix(text[i:], "...") {
			return i
		}
	}
	return len(text)
}

// regexLength is that of the regular expression that starts with a slash, with its
// flags, or 0 if none ends on the line.
func regexLength(text string) int {
	class := false
	line := text[:lineLength(text)]
	for i := 1; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '[':
			class = true
		case ']':
			class = false
		case '/':
			if class {
				continue
			}
			for i++; i < len(line) && isWordByte(line[i]) && line[i] < 0x80; i++ {
			}
			return i
		}
	}
	return 0
}
