package gate

import (
	"fmt"
	"strings"
)

// The engine knows two libraries of regular expressions. In one of them an edge of a
// word, \b, goes by the letters of all languages, in JavaScript by those of \w. In both a
// line ends at \n alone, in JavaScript at \r, U+2028 and U+2029 too. So each edge is
// written out, and the dot, which the library that knows them takes for the last two. The
// brackets of one that is empty tell it from what a script may write.
const (
	edge      = `(?:(?:(?<=\w)(?!\w)|(?<!\w)(?=\w))(?:))`
	noEdge    = `(?:(?:(?<=\w)(?=\w)|(?<!\w)(?!\w))(?:))`
	lineStart = `(?:(?:^|(?<=[\r\u2028\u2029]))(?:))`
	lineEnd   = `(?:(?:$|(?=[\r\u2028\u2029]))(?:))`
	dot       = `(?:[^\n\r\u2028\u2029](?:))`
)

// BadRegex says why the engine cannot run a regular expression right, or nothing.
func BadRegex(pattern, flags string) string {
	switch {
	case strings.Contains(flags, "v"):
		return "The flag v of a regular expression is not available here"
	case strings.Contains(flags, "d"):
		return "The flag d of a regular expression is not available here"
	case hasProperty(pattern):
		return `The class \p{…} of a regular expression is not available here: list the characters, as in [a-zà-ÿ]`
	}
	return ""
}

// hasProperty reports whether a pattern has \p{ or \P{ that is not escaped.
func hasProperty(pattern string) bool {
	for i := 0; i+2 < len(pattern); i++ {
		if pattern[i] != '\\' {
			continue
		}
		if i++; pattern[i]|0x20 == 'p' && pattern[i+1] == '{' {
			return true
		}
	}
	return false
}

// WithEdges is a pattern with its edges of words written out, and those of lines where
// its flags let ^ and $ mean them.
func WithEdges(pattern, flags string) string {
	lines := strings.Contains(flags, "m") && strings.ContainsAny(pattern, "^$")
	if !lines && !strings.Contains(pattern, `\b`) && !strings.Contains(pattern, `\B`) {
		return pattern
	}
	var out strings.Builder
	class := false
	for i := 0; i < len(pattern); i++ {
		size, written := 1, ""
		switch rest := pattern[i:]; {
		case rest[0] == '[':
			class = true
		case rest[0] == ']':
			class = false
		case rest[0] == '\\' && len(rest) > 1:
			size = 2
			if !class {
				written = wordEdge(rest[1])
			}
		case !class && strings.HasPrefix(rest, "(?<") && !strings.HasPrefix(rest[3:], "=") && !strings.HasPrefix(rest[3:], "!"):
			size = max(1, strings.IndexByte(rest, '>')+1) // a name may hold a $
		case lines && !class && rest[0] == '^':
			written = lineStart
		case lines && !class && rest[0] == '$':
			written = lineEnd
		case lines && !class && rest[0] == '.' && !strings.Contains(flags, "s"):
			written = dot
		}
		if written == "" {
			written = pattern[i : i+size]
		}
		out.WriteString(written)
		i += size - 1
	}
	return out.String()
}

// wordEdge is what an escape is written as that is an edge of a word, or nothing.
func wordEdge(c byte) string {
	switch c {
	case 'b':
		return edge
	case 'B':
		return noEdge
	}
	return ""
}

// WithoutEdges is the pattern that [WithEdges] was given.
func WithoutEdges(pattern string) string {
	if !strings.Contains(pattern, "(?:))") {
		return pattern
	}
	return strings.NewReplacer(edge, `\b`, noEdge, `\B`, lineStart, `^`, lineEnd, `$`, dot, `.`).Replace(pattern)
}

// RegexWords is what the engine says of a pattern that it cannot read, in words of the
// language; any other message stays as it is.
func RegexWords(message string) string {
	if !strings.HasPrefix(message, "Invalid regular expression (re") {
		return message
	}
	_, pattern, _ := strings.Cut(message, "): ")
	pattern, why, _ := strings.Cut(pattern, " (Invalid regular expression (re")
	if why == "" {
		if at := strings.LastIndex(pattern, " (error parsing"); at >= 0 {
			pattern, why = pattern[:at], pattern[at:]
		}
	}
	text := fmt.Sprintf("Invalid regular expression: /%s/", WithoutEdges(pattern))
	for _, known := range []struct{ sign, words string }{
		{"missing closing )", "a group is not closed"},
		{"missing closing ]", "a character class is not closed"},
		{"repeat count", "the numbers of a repetition are out of order"},
		{"nested repetition", "nothing to repeat"},
		{"missing argument to repetition", "nothing to repeat"},
		{"range", "a range is out of order"},
	} {
		if strings.Contains(why, known.sign) {
			return text + ": " + known.words
		}
	}
	return text
}
