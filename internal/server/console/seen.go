package console

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// marksInARow is how many combining marks may follow one letter before they
// are taken for an attempt to write over other lines.
const marksInARow = 3

// seen writes out what nobody sees in a page: characters that control how text is shown
// (of direction above all), letters that look like nothing, bytes that are no text. Agents
// name things, and a person is to read what they have written in its order. It is done to
// the whole page, so that no place of one can be forgotten.
func seen(page string) string {
	if strings.IndexFunc(page, func(r rune) bool { return r >= utf8.RuneSelf || unseen(r) }) < 0 {
		return page
	}
	var b strings.Builder
	marks := 0
	for i, r := range page {
		if marks++; !unicode.Is(unicode.M, r) {
			marks = 0
		}
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(page[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, page[i])
		case unseen(r) || marks > marksInARow:
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unseen reports characters that Unicode does not call printable, and those that it does
// and nobody sees.
func unseen(r rune) bool {
	switch r {
	case '\n', '\t', utf8.RuneError:
		return false
	case 0x034f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x2800, 0x3164, 0xffa0:
		return true
	}
	return !unicode.IsPrint(r) || unicode.Is(unicode.Variation_Selector, r)
}
