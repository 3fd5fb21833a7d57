package classifier

import (
	"slices"
	"unicode"
	"unicode/utf8"
)

// look looks for arguments of a body under other names, and in lists, for all of them together
// within bounds: a document of a mebibyte has a hundred thousand names.
type look struct {
	args []bodyArg
	left int // of mostLooked; below 0 every argument that is still looked for may be anywhere
}

// mostLooked is what the comparisons of names may cost for one body, each some bytes. Documents
// that programs send stay far below it.
const mostLooked = 4 << 20

// elsewhere reports whether a body has what a pointer leads to in another spelling, or in the
// elements of a list where there is an object to the service. Names that differ in the case of
// ASCII alone are refused where that is looked for.
func (l *look) elsewhere(b *Body, tokens []string) bool {
	if b.form != nil {
		return len(tokens) == 1 && respelled(l, b.form, tokens, 0)
	}
	value := b.json
	for at, token := range tokens {
		switch v := value.(type) {
		case map[string]any:
			if respelled(l, v, tokens, at) {
				return true
			}
			value = v[token]
		case []any:
			i, ok := arrayIndex(token, len(v))
			if !ok {
				return !isDigits(token) && l.among(v, tokens, at)
			}
			value = v[i]
		default:
			return false
		}
	}
	return false
}

// among reports whether a list has an object with a member of the name at a place of the
// pointer, or a list with one.
func (l *look) among(list []any, tokens []string, at int) bool {
	return slices.ContainsFunc(list, func(element any) bool {
		if l.left -= 8; l.left < 0 {
			return true
		}
		switch v := element.(type) {
		case map[string]any:
			_, found := v[tokens[at]]
			return found || respelled(l, v, tokens, at)
		case []any:
			return l.among(v, tokens, at)
		}
		return false
	})
}

// respelled reports whether a member or field is, to some reader, the one of the name at a
// place of the pointer, and no argument of its own.
func respelled[V any](l *look, members map[string]V, tokens []string, at int) bool {
	as := tokens[at]
	for name := range members {
		if name == as {
			continue
		}
		if l.left -= cost(name); l.left < 0 {
			return true
		}
		if (SameParameter(name, as) || otherCase(name, as)) && !l.mapped(tokens[:at], name) {
			return true
		}
	}
	return false
}

// cost is what it takes to compare a name, about: what begins with no letter is read further.
func cost(name string) int {
	if name == "" || plain(name[0]) {
		return 8 + len(name)
	}
	return 8 * (8 + len(name))
}

// mapped reports whether an argument is read from a name, or from within it.
func (l *look) mapped(above []string, name string) bool {
	return slices.ContainsFunc(l.args, func(arg bodyArg) bool {
		return len(arg.tokens) > len(above) && arg.tokens[len(above)] == name && slices.Equal(arg.tokens[:len(above)], above)
	})
}

// otherCase reports whether names differ in the case of letters as Java's equalsIgnoreCase has
// it, for which the dotless and the dotted i of Turkish are an i.
func otherCase(name, as string) bool {
	for name != "" && as != "" {
		r, n := utf8.DecodeRuneInString(name)
		q, m := utf8.DecodeRuneInString(as)
		if r != q && unicode.ToLower(unicode.ToUpper(r)) != unicode.ToLower(unicode.ToUpper(q)) {
			return false
		}
		name, as = name[n:], as[m:]
	}
	return name == as
}
