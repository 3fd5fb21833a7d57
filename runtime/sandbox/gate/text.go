package gate

import (
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// user is the source as it was given, and the part of it that is code.
type user struct {
	source     string
	start, end int // of the code, offsets in source
}

func (u user) code() string { return u.source[u.start:u.end] }

// at is the place of an offset in the source.
func (u user) at(offset int) (line, column int) {
	offset = max(0, min(offset, len(u.source)))
	line, start := 1, 0
	for {
		next := nextLine(u.source[start:])
		if next < 0 || start+next > offset {
			break
		}
		start += next
		line++
	}
	return line, utf8.RuneCountInString(u.source[start:offset]) + 1
}

// refuse is a refusal at an offset of the code.
func (u user) refuse(offset int, message string) frame.Refusal {
	line, column := u.at(u.start + offset)
	return frame.Refusal{Line: line, Column: column, Message: message}
}

// unwrap finds the code in what a model wrote: a fence around all of it, and a mark
// of the byte order, are no code.
func unwrap(source string) user {
	u := user{source: source, end: len(source)}
	if strings.HasPrefix(source, "\ufeff") {
		u.start = len("\ufeff")
	}
	text := source[u.start:]
	lead := len(text) - len(strings.TrimLeft(text, " \t\r\n"))
	tail := len(strings.TrimRight(text, " \t\r\n"))
	if !strings.HasPrefix(text[lead:], "```") || tail <= lead {
		return u
	}
	body := strings.IndexByte(text[lead:], '\n')
	last := strings.LastIndexByte(text[:tail], '\n')
	if body < 0 || last < lead+body || !isFence(text[lead+3:lead+body]) || strings.TrimSpace(text[last+1:tail]) != "```" {
		return u
	}
	u.start, u.end = u.start+lead+body+1, u.start+max(last, lead+body+1)
	return u
}

// isFence reports whether the rest of a fence's first line is the name of a
// language, or nothing.
func isFence(info string) bool {
	return !strings.ContainsAny(strings.TrimSpace(info), " `;(){}")
}

// nextLine is the offset at which the second line of a text starts, or -1. It
// counts the line terminators of JavaScript (ECMA-262, 12.3).
func nextLine(text string) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\n':
			return i + 1
		case '\r':
			if i+1 < len(text) && text[i+1] == '\n' {
				return i + 2
			}
			return i + 1
		case 0xe2:
			if strings.HasPrefix(text[i:], "\u2028") || strings.HasPrefix(text[i:], "\u2029") {
				return i + 3
			}
		}
	}
	return -1
}

// lines are the offsets at which the lines of a text start.
type lines []int

func linesOf(text string) lines {
	starts := lines{0}
	for at := 0; ; {
		next := nextLine(text[at:])
		if next < 0 {
			return starts
		}
		at += next
		starts = append(starts, at)
	}
}

// offset is that of a line and a column in bytes, both from one.
func (l lines) offset(line, column int) int {
	if line < 1 || line > len(l) {
		return -1
	}
	return l[line-1] + column - 1
}

// find is the line, from zero, of an offset.
func (l lines) find(offset int) int {
	return sort.Search(len(l), func(i int) bool { return l[i] > offset }) - 1
}
