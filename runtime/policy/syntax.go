package policy

import (
	"regexp"
	"strconv"
	"strings"
)

// syntax turns the YAML reader's error, which knows at most a line, into a
// problem. The commonest cause, a pattern whose star is not quoted, is named.
func (p *parser) syntax(err error) {
	msg, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1])
		msg = strings.TrimPrefix(msg, m[0])
	}
	if l, column, ok := p.unquotedStar(line); ok {
		p.problemAt(l, column, `quote the pattern: "*"`, "an unquoted * is a YAML alias, not a pattern")
		return
	}
	column := 1
	if line >= 1 && line <= len(p.lines) {
		text := p.lines[line-1]
		column += len([]rune(text)) - len([]rune(strings.TrimLeft(text, " \t")))
	}
	p.problemAt(line, column, "", "not YAML: %s", msg)
}

// unquotedStar finds a star where a value begins: in the line, or near it,
// since the reader's lines are off by one at times; anywhere when line is 0.
func (p *parser) unquotedStar(line int) (at, column int, ok bool) {
	star := regexp.MustCompile(`(?:^|[:\[,-]\s+|\[)\s*\*`)
	for i, text := range p.lines {
		if line != 0 && (i+1 < line-1 || i+1 > line+1) {
			continue
		}
		code, _, _ := strings.Cut(text, " #")
		if m := star.FindStringIndex(code); m != nil {
			return i + 1, len([]rune(code[:m[1]])), true
		}
	}
	return 0, 0, false
}
