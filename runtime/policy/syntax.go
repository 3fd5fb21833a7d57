package policy

import (
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/runtime"
)

var yamlLine = regexp.MustCompile(`^line (\d+): `)

// syntax turns the YAML reader's error, which knows at most a line, into a
// problem. The commonest cause, a pattern whose star is not quoted, is named.
func (p *parser) syntax(text string, err error) {
	msg, line := said(err)
	if at := runtime.FirstWrong(text, func(upTo string) (string, int) {
		var tree yaml.Node
		return said(yaml.Unmarshal([]byte(upTo), &tree))
	}); at > 0 {
		line = at
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

// said is what the YAML reader says, and the line that it names, 0 for none.
func said(err error) (msg string, line int) {
	if err == nil {
		return "", 0
	}
	msg = strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine.FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1])
		msg = strings.TrimPrefix(msg, m[0])
	}
	return msg, line
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
