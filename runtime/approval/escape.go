package approval

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// marksInARow is how many combining marks may follow one letter before they
// are taken for an attempt to write over other lines.
const marksInARow = 3

// visible makes text safe to show in a terminal, on one line: whatever is not
// a plainly visible character is written as an escape, the backslash too, so
// that an escape cannot be faked. Beyond limit characters it is cut and
// whole is false; limit 0 does not cut.
func visible(text string, limit int) (shown string, whole bool) {
	var b strings.Builder
	count, marks := 0, 0
	for i := 0; i < len(text); {
		if limit > 0 && count == limit {
			return b.String(), false
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if marks++; !unicode.Is(unicode.M, r) {
			marks = 0
		}
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\\':
			b.WriteString(`\\`)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case !unicode.IsPrint(r) || blank(r) || marks > marksInARow:
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
		i += size
		count++
	}
	return b.String(), true
}

// blank reports letters and marks that Unicode calls printable and nobody sees.
func blank(r rune) bool {
	switch r {
	case 0x034f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x2800, 0x3164, 0xffa0:
		return true
	}
	return unicode.Is(unicode.Variation_Selector, r)
}
