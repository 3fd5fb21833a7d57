package gate

import (
	"strings"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// The sentences of refusals all end alike.
const notAllowed = " not allowed in sandboxed code"

// moduleWords refuses module syntax in code that goja cannot parse. It goes by tokens, so
// that code which is TypeScript as well is refused for what it is, and nothing that
// rewrites the code gets to drop an import that is not used.
func moduleWords(u user, tokens []token) []frame.Refusal {
	code := u.code()
	at := func(i int) string {
		if i < 0 || i >= len(tokens) {
			return ""
		}
		return code[tokens[i].start:tokens[i].end]
	}
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
		case name == "export" && after != "(":
			message = "Export declarations are" + notAllowed
		}
		if message != "" {
			found = append(found, u.refuse(t.start, message))
		}
	}
	return found
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
