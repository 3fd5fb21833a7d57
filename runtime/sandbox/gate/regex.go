package gate

import (
	"fmt"
	"strings"
	"sync"

	"github.com/dlclark/regexp2/v2"
)

// The engine knows two libraries of regular expressions. In one of them an edge of a
// word, \b, goes by the letters of all languages, in JavaScript by those of \w. So each is
// written out. The brackets of one that is empty tell it from what a script may write.
const (
	edge   = `(?:(?:(?<=\w)(?!\w)|(?<!\w)(?=\w))(?:))`
	noEdge = `(?:(?:(?<=\w)(?=\w)|(?<!\w)(?!\w))(?:))`
)

// unlimited lets the library that backtracks do so as far as a script has memory and time. By itself
// it gives up at a step that takes some kilobytes of text, and the engine calls that no match.
var unlimited = sync.OnceFunc(func() { regexp2.DefaultOptimizationOptions.MaxBacktrackingStackSize = -1 })

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

// WithEdges is a pattern with its edges of words written out.
func WithEdges(pattern string) string {
	if !strings.Contains(pattern, `\b`) && !strings.Contains(pattern, `\B`) {
		return pattern
	}
	var out strings.Builder
	class := false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '\\' && i+1 < len(pattern):
			if i++; !class && pattern[i] == 'b' {
				out.WriteString(edge)
			} else if !class && pattern[i] == 'B' {
				out.WriteString(noEdge)
			} else {
				out.WriteString(pattern[i-1 : i+1])
			}
			continue
		}
		out.WriteByte(pattern[i])
	}
	return out.String()
}

// WithoutEdges is the pattern that [WithEdges] was given.
func WithoutEdges(pattern string) string {
	if !strings.Contains(pattern, "(?:))") {
		return pattern
	}
	return strings.NewReplacer(edge, `\b`, noEdge, `\B`).Replace(pattern)
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
