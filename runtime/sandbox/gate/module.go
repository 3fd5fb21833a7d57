package gate

import (
	"strings"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// The sentences of refusals all end alike.
const notAllowed = " not allowed in sandboxed code"

// moduleWords refuses module syntax, and namespaces, in code that goja cannot parse. It goes by tokens, so
// that code which is TypeScript as well is refused for what it is, and nothing that
// rewrites the code gets to drop an import that is not used.
func moduleWords(u user, tokens []token) []frame.Refusal {
	at, outer := textsOf(u, tokens), outerOf(tokens)
	var found []frame.Refusal
	for i, t := range tokens {
		name, before, after := at(i), at(i-1), at(i+1)
		if t.kind != word || before == "." || before == "?." || strings.ContainsAny(after, ":=;") {
			continue
		}
		method := false
		if after == "(" {
			next := at(tokens[i+1].match + 1)
			method = next == "{" || next == ":" && strings.Contains("{;,", before)
		}
		message := ""
		switch {
		case method:
		case name == "import" && after == "(":
			message = "Dynamic import() is" + notAllowed
		case name == "import" && after == ".":
			message = "import.meta is" + notAllowed
		case name == "import":
			message = "Import declarations are" + notAllowed
		case isNamespace(at, tokens, afterPath(at, i+1)):
			message = "A namespace is" + notAllowed + ": write an object"
		case name == "export" && after != "(" && !isNamespace(at, tokens, outer[i]) && !exportsType(at, tokens, outer, i):
			message = "Export declarations are" + notAllowed
		}
		if message != "" {
			found = append(found, u.refuse(t.start, message))
		}
	}
	return found
}

// textsOf reads the text of a token by its index; there is none outside of the tokens.
func textsOf(u user, tokens []token) func(int) string {
	code := u.code()
	return func(i int) string {
		if i < 0 || i >= len(tokens) {
			return ""
		}
		return code[tokens[i].start:tokens[i].end]
	}
}

// afterPath is what follows a path, as A.B, that starts with a token.
func afterPath(at func(int) string, i int) int {
	for at(i+1) == "." {
		i += 2
	}
	return i + 1
}

// isNamespace reports whether a bracket is that of a namespace, as namespace A.B {, which
// esbuild does not take inside of a function. What is exported there goes no further. Of a
// variable of that name a line ends before what follows.
func isNamespace(at func(int) string, tokens []token, bracket int) bool {
	if at(bracket) != "{" {
		return false
	}
	name := bracket - 1
	for at(name-1) == "." {
		name -= 2
	}
	return name > 0 && !tokens[name].line && (at(name-1) == "namespace" || at(name-1) == "module")
}

// exportsType reports whether a token exports a type, which is nothing that runs.
func exportsType(at func(int) string, tokens []token, outer []int, i int) bool {
	if outer[i] >= 0 || i+3 >= len(tokens) || tokens[i+2].kind != word {
		return false
	}
	switch then := at(i + 3); at(i + 1) {
	case "interface":
		return then == "{" || then == "<" || then == "extends"
	case "type":
		return then == "=" || then == "<"
	}
	return false
}

// withoutExports is a source whose types are not exported: no parser takes an export
// inside of a function. No place moves.
func withoutExports(u user, tokens []token) user {
	at, outer, source := textsOf(u, tokens), outerOf(tokens), []byte(u.source)
	for i, t := range tokens {
		if at(i) == "export" && exportsType(at, tokens, outer, i) {
			copy(source[u.start+t.start:], strings.Repeat(" ", t.end-t.start))
		}
	}
	u.source = string(source)
	return u
}

// expressions refuses, in code that goja cannot parse, the regular expressions that
// the engine cannot run right: a rewriting could hide them in a text.
func expressions(u user, tokens []token) []frame.Refusal {
	var found []frame.Refusal
	for _, t := range tokens {
		if t.kind != regex {
			continue
		}
		literal := u.code()[t.start:t.end]
		end := strings.LastIndexByte(literal, '/')
		if message := BadRegex(literal[1:end], literal[end+1:]); message != "" {
			found = append(found, u.refuse(t.start, message))
		}
	}
	return found
}
