package gate

// passesTypes reports whether a source passes types to a call, as new Set<string>(list).
// JavaScript has two comparisons there, which nobody writes so: a name, the list and the
// bracket with nothing between them.
func passesTypes(u user, tokens []token) bool {
	code := u.code()
	for i := 1; i < len(tokens); i++ {
		sign := tokens[i]
		if code[sign.start:sign.end] != "<" || tokens[i-1].kind != word || tokens[i-1].end != sign.start {
			continue
		}
		end, sure := typesEnd(code, tokens, i)
		if end == 0 || end+1 >= len(tokens) || tokens[end+1].start != tokens[end].end {
			continue
		}
		if next := code[tokens[end+1].start]; (next == '(' || next == '`') && (sure || isMade(code, tokens, i-1)) {
			return true
		}
	}
	return false
}

// typesEnd is the index of the sign that closes a list of types, or 0 if what follows
// the one that opens it has more than types can have. It is sure if they cannot be the
// sides of two comparisons: [x<low, x>(high - 1)].
func typesEnd(code string, tokens []token, start int) (end int, sure bool) {
	depth, several, types := 0, false, false
	for i := start; i < len(tokens); i++ {
		t := tokens[i]
		if t.match > i {
			i = t.match
			continue
		}
		name := code[t.start:t.end]
		if t.kind != punct {
			types = types || isType(name)
			continue
		}
		switch name {
		case "<":
			if depth++; depth > maxAngle {
				return 0, false
			}
			types = types || depth > 1
		case ">":
			if depth--; depth == 0 {
				return i, types || !several
			}
		case ",", "|", "&":
			several = several || depth == 1
		case ".", "=>":
		default:
			return 0, false
		}
	}
	return 0, false
}

// isType reports whether a word is a type of TypeScript's own, which few call a variable.
func isType(name string) bool {
	switch name {
	case "string", "number", "boolean", "bigint", "symbol", "object", "any", "unknown", "never", "void":
		return true
	}
	return false
}

// isMade reports whether new stands before the name that is a token, as in new a.Map.
func isMade(code string, tokens []token, i int) bool {
	at := func(i int) string {
		if i < 0 {
			return ""
		}
		return code[tokens[i].start:tokens[i].end]
	}
	for at(i-1) == "." {
		i -= 2
	}
	return at(i-1) == "new"
}
