package gate

import (
	"unicode/utf16"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// places maps places of the text that was parsed to those of the source.
type places struct {
	user   user
	parsed string
	prefix int     // bytes of parsed, or of what mapping leads to, before the code
	lines  lines   // of what mapping leads to, or of parsed
	moved  mapping // of a text that was rewritten; nil: parsed is the code in its wrapper

	inserted []insertion // in parsed, sorted, after all that
	rows     lines       // of parsed, where there are any
}

// of is the place in the source of a line and a column, in bytes, of the parsed text.
func (p places) of(line, column int) (int, int) {
	if p.inserted != nil && line > 0 && line <= len(p.rows) { // no line was inserted
		start := p.rows[line-1]
		column = p.without(start+column-1) - p.without(start) + 1
	}
	offset := -1
	if p.moved == nil {
		offset = p.lines.offset(line, column)
	} else if l, c, ok := p.moved.find(line-1, column-1); ok {
		offset = offsetUTF16(p.user, p.prefix, p.lines, l, c)
	}
	return p.inSource(offset)
}

// inSource is the place in the source of an offset in the wrapped code.
func (p places) inSource(offset int) (int, int) {
	if offset < p.prefix {
		return 0, 0
	}
	return p.user.at(min(p.user.start+offset-p.prefix, p.user.end))
}

// refuse is a refusal at an offset of the parsed text.
func (p places) refuse(offset int, message string) frame.Refusal {
	line := 0
	column := 0
	if p.moved == nil {
		line, column = p.inSource(p.without(offset))
	} else {
		starts := linesOf(p.parsed)
		row := starts.find(offset)
		line, column = p.of(row+1, offset-starts[row]+1)
	}
	return frame.Refusal{Line: max(line, 1), Column: max(column, 1), Message: message}
}

// offsetUTF16 is the offset in the wrapped code of a line and a column that counts
// UTF-16 units, both from zero, as source maps do.
func offsetUTF16(u user, prefix int, starts lines, line, column int) int {
	if line < 0 || line >= len(starts) {
		return -1
	}
	at := starts[line]
	if line == 0 {
		at, column = prefix, column-prefix // the wrapper is ASCII
	}
	for i, r := range u.code()[min(max(at-prefix, 0), u.end-u.start):] {
		if column <= 0 {
			return at + i
		}
		column -= utf16.RuneLen(r)
	}
	return u.end - u.start + prefix
}
