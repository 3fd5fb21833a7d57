package services

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Problem is one thing that is wrong with a service file, and where.
type Problem struct {
	File    string
	Line    int    // from 1; 0: the file as a whole
	Column  int    // from 1, in characters
	Field   string // as messages call it, like service.name; may be empty
	Msg     string
	Fix     string // what to write instead; may be empty
	Excerpt string // the source line and a caret below it; may be empty
}

// String is the problem as a person reads it: position, message, the line with
// a caret, the fix.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": " + p.Msg)
	if p.Excerpt != "" {
		b.WriteString("\n" + p.Excerpt)
	}
	if p.Fix != "" {
		b.WriteString("\n    fix: " + p.Fix)
	}
	return b.String()
}

// Problems are all problems of one or more files, sorted by position. It is an
// error.
type Problems []Problem

// Error shows every problem, one after the other.
func (ps Problems) Error() string {
	texts := make([]string, len(ps))
	for i, p := range ps {
		texts[i] = p.String()
	}
	return strings.Join(texts, "\n")
}

// orNil keeps an empty list from becoming an error that is not nil.
func (ps Problems) orNil() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.CompactFunc(ps, func(a, b Problem) bool { return a == b })
}

// excerpt is the source line with a caret under the column. Of a long line only
// the part around the column is shown, and nothing that a terminal would obey.
func excerpt(line string, column int) string {
	const before, width = 60, 120
	runes := []rune(line)
	at := min(max(column-1, 0), len(runes))
	from := 0
	if len(runes) > width {
		from = max(0, at-before)
	}
	to := min(len(runes), from+width)
	var text, caret strings.Builder
	for i := from; i < to; i++ {
		r := runes[i]
		if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
			r = '?'
		}
		text.WriteRune(r)
		if i < at {
			caret.WriteRune(blank(r))
		}
	}
	return "    " + strings.TrimRight(text.String(), " ") + "\n    " + caret.String() + "^"
}

func blank(r rune) rune {
	if r == '\t' {
		return '\t'
	}
	return ' '
}

// nearest returns the word closest to what was written, "" when none is close.
func nearest(written string, words []string) string {
	best, distance := "", len(written)/3+2
	for _, w := range words {
		if d := edits(written, w); d < distance {
			best, distance = w, d
		}
	}
	return best
}

// edits counts the insertions, deletions and replacements between two words.
func edits(a, b string) int {
	const most = 64 // longer words are not typing errors of each other
	if len(a) > most || len(b) > most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0]++
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// shown quotes a word of the file or of a caller, shortened.
func shown(word string) string {
	const most = 60
	if len(word) > most {
		word = strings.ToValidUTF8(word[:most], "") + "…"
	}
	return fmt.Sprintf("%q", word)
}
