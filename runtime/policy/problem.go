package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Problem is one thing wrong with a policy file, and where.
type Problem struct {
	File    string
	Line    int    // from 1
	Column  int    // in characters, from 1
	Field   string // as it is written, like then; may be empty
	Msg     string
	Fix     string // what to write instead; may be empty
	Excerpt string // the line itself, control characters made visible
}

// String shows the problem with its line and a caret under the place.
func (p Problem) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: %s", p.File, p.Line, p.Column, p.Msg)
	if p.Excerpt != "" {
		fmt.Fprintf(&b, "\n  %s\n  %s^", p.Excerpt, strings.Repeat(" ", p.Column-1))
	}
	if p.Fix != "" {
		fmt.Fprintf(&b, "\n  fix: %s", p.Fix)
	}
	return b.String()
}

// Problems are all the problems of one file, in the file's order.
type Problems []Problem

// At is a problem at a place of the file that reading it does not show.
func (f File) At(line, column int, field, msg, fix string) Problem {
	return Problem{
		File: f.Name, Line: line, Column: column, Field: field, Msg: msg, Fix: fix,
		Excerpt: excerpt(strings.Split(string(f.Data), "\n"), line, column),
	}
}

// InOrder sorts the problems by their files' names and their places.
func (p Problems) InOrder() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return p
}

// Error implements error.
func (p Problems) Error() string {
	shown := make([]string, len(p))
	for i := range p {
		shown[i] = p[i].String()
	}
	return strings.Join(shown, "\n")
}

// excerptWidth is how much of a line a problem shows, in characters.
const excerptWidth = 160

// excerpt returns the line for showing in a terminal, empty when there is none
// or the column is beyond what is shown.
func excerpt(lines []string, line, column int) string {
	if line < 1 || line > len(lines) {
		return ""
	}
	text := []rune(lines[line-1])
	text = text[:min(len(text), excerptWidth)]
	if column < 1 || column > len(text)+1 {
		return ""
	}
	for i, r := range text {
		switch {
		case r == '\t':
			text[i] = ' '
		case !unicode.IsPrint(r):
			text[i] = '?'
		}
	}
	return string(text)
}

// closest returns the known word that is most like the written one, "" when
// none is near.
func closest(written string, known []string) string {
	best, at := "", 3
	for _, word := range known {
		if d := distance(strings.ToLower(written), word); d < at && d < len(word) {
			best, at = word, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b (optimal string alignment).
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
