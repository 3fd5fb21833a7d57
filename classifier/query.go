package classifier

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// nextPair cuts the first parameter off a query or form. ";" separates nothing:
// it stays in the value, and [hides] finds what another reader would see there.
func nextPair(query string) (raw, key, value, rest string) {
	raw, rest, _ = strings.Cut(query, "&")
	key, value, _ = strings.Cut(raw, "=")
	return raw, key, value, rest
}

// unescapeQuery decodes one key or value of an application/x-www-form-urlencoded
// text. Without escapes it returns its argument and allocates nothing.
func unescapeQuery(s string) (string, *Error) {
	if strings.IndexByte(s, '%') < 0 && strings.IndexByte(s, '+') < 0 {
		return s, nil
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '+':
			out = append(out, ' ')
		case '%':
			c, ok := escaped(s, i)
			if !ok {
				return "", badTarget(reasonInvalidTarget, "a percent escape in the query or form is not valid")
			}
			out = append(out, c)
			i += 2
		default:
			out = append(out, s[i])
		}
	}
	if !utf8.Valid(out) {
		return "", badTarget(reasonInvalidTarget, "the query or form does not decode to UTF-8")
	}
	return string(out), nil
}

// queryValue finds the one value of a parameter that decides the action.
func queryValue(query, name string) (value string, found bool, err *Error) {
	err = queryValues(query, name, SameParameter, func(text string) *Error {
		if found {
			return twice(name)
		}
		value, found = text, true
		return nil
	})
	return value, found && err == nil, err
}

// queryValues passes the values of a parameter that decides the action, in their order. It
// refuses other keys that some reader takes for the name, as meant says.
func queryValues(query, name string, meant func(key, name string) bool, take func(value string) *Error) *Error {
	for query != "" {
		var raw, rawKey, rawValue string
		raw, rawKey, rawValue, query = nextPair(query)
		key, err := unescapeQuery(rawKey)
		if err != nil {
			return err
		}
		if key != name {
			if hidesAs(meant, raw, key, name) {
				return otherSpelling(name)
			}
			continue
		}
		if strings.IndexByte(rawValue, ';') >= 0 {
			return semicolon(name)
		}
		value, err := unescapeQuery(rawValue)
		if err == nil {
			err = take(value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// queryHasPart reports whether some reader would find something inside of the name in
// the query. The keys are known to decode.
func queryHasPart(query, name string) bool {
	for query != "" {
		var raw, rawKey string
		raw, rawKey, _, query = nextPair(query)
		if key, err := unescapeQuery(rawKey); err != nil || hidesAs(SamePart, raw, key, name) {
			return true
		}
	}
	return false
}

// hides reports whether another reader of the query could find the parameter
// name in a pair with another key: after a ";" taken as separator, or in a key
// that it cuts to the name.
func hides(raw, key, name string) bool { return hidesAs(SameParameter, raw, key, name) }

// hidesAs is [hides] for readers that take a key for the name as meant says.
func hidesAs(meant func(key, name string) bool, raw, key, name string) bool {
	if meant(key, name) {
		return true
	}
	for _, piece, more := strings.Cut(raw, ";"); more; {
		var this string
		this, piece, more = strings.Cut(piece, ";")
		rawKey, _, _ := strings.Cut(this, "=")
		if other, err := unescapeQuery(rawKey); err != nil || meant(other, name) {
			return true
		}
	}
	return false
}

// SamePart reports whether some reader of a query or form would put the key, beside
// others, together to the list or object name: "x[0]", "x[y]", "x.y". Of a name that
// has brackets itself, "x[y][]", those are another's that differ in the first of them.
func SamePart(key, name string) bool {
	key = strings.TrimLeftFunc(key, PassedOver)
	base, own, inner := strings.Cut(strings.TrimSuffix(name, "[]"), "[")
	if base == "" {
		base, inner = name, false
	}
	if !inner {
		return SameParameter(key, base) || dotted(key, base)
	}
	_, group, some := strings.Cut(key, "[")
	group, _, _ = strings.Cut(group, "]")
	own, _, _ = strings.Cut(own, "]")
	return SameParameter(key, base) && (!some || strings.EqualFold(strings.TrimSpace(group), own))
}

// dotted reports whether the key is something inside of the name, as the binders of
// Spring and ASP.NET write it: "member.role".
func dotted(key, name string) bool {
	end := 0
	for range strings.Count(name, ".") + 1 {
		next := strings.IndexByte(key[end:], '.')
		if next < 0 {
			return false
		}
		end += next + 1
	}
	return SameParameter(key[:end-1], name)
}

// SameParameter reports whether some reader of a query or form would take the key for the
// name: one that ignores case, one that cuts it, or PHP, to which a dot, a blank
// and a bracket that nothing closes are "_".
func SameParameter(key, name string) bool {
	return !otherLetter(key, name) && cutAnyTo(key, name)
}

// otherLetter reports whether a key begins with another letter than the name to every reader,
// as most keys do, also behind what some of them pass over.
func otherLetter(key, name string) bool {
	if key == "" || name == "" || name[0] >= 0x80 {
		return false
	}
	for plain(name[0]) && key != "" && key[0] < 0x80 && PassedOver(rune(key[0])) {
		key = key[1:]
	}
	return key != "" && plain(key[0]) && key[0]|0x20 != name[0]|0x20
}

// cutAnyTo is [SameParameter] for a key of any first letter.
func cutAnyTo(key, name string) bool {
	if end := strings.IndexByte(key, 0); end >= 0 {
		key = key[:end]
	}
	cut := cutKey(key)
	if strings.EqualFold(cut, name) || strings.EqualFold(bareKey(key), name) {
		return true
	}
	if !strings.Contains(name, "_") || !strings.ContainsAny(key, ". [") {
		return false
	}
	if !strings.Contains(key, "]") {
		cut = strings.TrimLeft(key, " ")
	}
	return phpEqual(cut, name)
}

func plain(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// phpEqual compares a key as PHP writes it with a name, in any case. It allocates
// nothing: a form may have very many keys.
func phpEqual(key, name string) bool {
	for {
		at := strings.IndexAny(key, ". [")
		if at < 0 {
			return strings.EqualFold(key, name)
		}
		under := strings.IndexByte(name, '_')
		for under >= 0 && !strings.EqualFold(key[:at], name[:under]) {
			next := strings.IndexByte(name[under+1:], '_')
			if next < 0 {
				return false
			}
			under += 1 + next
		}
		if under < 0 {
			return false
		}
		key, name = key[at+1:], name[under+1:]
	}
}

// cutKey is what some readers make of a key: PHP drops blanks before it and all
// from a NUL on, and takes "name[]" and "name[0]" for elements of name.
func cutKey(key string) string {
	key = strings.TrimSpace(key)
	if i := strings.IndexAny(key, "[\x00"); i >= 0 {
		key = strings.TrimSpace(key[:i])
	}
	return key
}

// bareKey is what others make of it: Rack leaves out the brackets around the first word of
// a key, "[name]" and "name]", as qs, which Express reads with, does with whole pairs and a
// leading dot. URLSearchParams takes a "?" before the first key for that of the query, and
// body-parser a byte order mark for one of the text.
func bareKey(key string) string {
	key = strings.TrimLeftFunc(key, PassedOver)
	if i := strings.IndexAny(key, "[]\x00"); i >= 0 {
		key = key[:i]
	}
	return strings.TrimSpace(key)
}

// PassedOver reports whether some reader of forms and queries passes over the letter at the
// beginning of a key: to Rack and Express "[name]" is name.
func PassedOver(r rune) bool {
	switch r {
	case '[', ']', '?', '.', '\ufeff':
		return true
	}
	return unicode.IsSpace(r)
}

func twice(name string) *Error {
	return badInput(reasonDuplicateParameter, "parameter %s is given more than once", shown(name))
}

func semicolon(name string) *Error {
	return badInput(reasonAmbiguousParameter, "parameter %s holds a raw \";\", which some servers take for a separator: send it as %%3B", shown(name))
}

func otherSpelling(name string) *Error {
	return badInput(reasonDuplicateParameter, "parameter %s is also given in another spelling", shown(name))
}
