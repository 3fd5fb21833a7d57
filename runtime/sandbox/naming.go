package sandbox

import (
	"slices"
	"strings"
)

// statements are words that a source may begin with and not be one function, which
// would get tools under a name of its own.
func statements() []string {
	return []string{"const", "let", "var", "return", "await", "if", "for", "while", "do", "try", "throw", "switch", "class", "interface", "type", "enum", "console", "tools"}
}

// NamedServices are the words for services that a source can come to use, each once:
// tools.WORD.… or tools["WORD"].…. It does not read the source as code: what stands in
// a text or a comment counts too. ok is false where tools may be used in another way,
// as under another name or to search, and then it may be any service.
func NamedServices(source string) (words []string, ok bool) {
	first, then := leadingWord(strings.TrimLeft(source, " \t\r\n"))
	then = strings.TrimLeft(then, " \t\r\n")
	function := strings.HasPrefix(then, "=") || strings.HasPrefix(then, "/") // type => …
	if function || !slices.Contains(statements(), first) || strings.Contains(source, "```") || strings.Contains(source, `\u`) {
		return nil, false
	}
	words = []string{}
	for rest, before := source, byte(' '); ; {
		at := strings.Index(rest, "tools")
		if at < 0 {
			return words, true
		}
		if at > 0 {
			before = rest[at-1]
		}
		rest = rest[at+len("tools"):]
		if partOfWord(before) || rest != "" && partOfWord(rest[0]) {
			before = 's'
			continue
		}
		word := serviceWord(rest)
		if word == "" || word == "search" || word == "describe" {
			return nil, false
		}
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
		before = 's'
	}
}

// serviceWord is the key that follows tools, if it stands there as such.
func serviceWord(rest string) string {
	rest = strings.TrimLeft(rest, " \t\r\n")
	if rest, ok := strings.CutPrefix(strings.TrimPrefix(rest, "?"), "."); ok {
		word, _ := leadingWord(strings.TrimLeft(rest, " \t\r\n"))
		return word
	}
	rest, ok := strings.CutPrefix(rest, "[")
	if !ok || rest == "" || rest[0] != '"' && rest[0] != '\'' {
		return ""
	}
	word, after, closed := strings.Cut(rest[1:], rest[:1])
	if !closed || !strings.HasPrefix(after, "]") || strings.IndexFunc(word, func(r rune) bool { return r != '-' && (r >= 0x80 || !partOfWord(byte(r))) }) >= 0 {
		return ""
	}
	return word
}

// leadingWord is the word that a text begins with; the letters beyond ASCII that a
// word may have are left to those who read code.
func leadingWord(text string) (word, after string) {
	n := 0
	for n < len(text) && partOfWord(text[n]) {
		if text[n] >= 0x80 {
			return "", text
		}
		n++
	}
	return text[:n], text[n:]
}

func partOfWord(b byte) bool {
	return b == '_' || b == '$' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}

// ServiceNames are the names that a service may have which a script calls by a word,
// the likelier ones first.
func ServiceNames(word string) []string {
	return slices.Compact([]string{word, strings.ReplaceAll(word, "_", "-"), strings.TrimPrefix(kebab(word), "-")})
}
