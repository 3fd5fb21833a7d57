package classifier

import (
	"iter"
	"net/http"
	"strings"
)

// fieldList are the elements of a field that is a list (RFC 9110 section 5.6.1): in several
// lines or in one, with commas. A comma between quotes parts two elements to some readers
// and to others none.
func fieldList(key string, lines []string) ([]any, *Error) {
	text := strings.Join(lines, ",")
	if commaInQuotes(text) {
		return nil, badInput(reasonAmbiguousParameter, "header field %s has a comma between quotes, and servers differ in what its elements are", key)
	}
	elements := make([]any, 0, len(lines))
	for element := range Elements(text) {
		elements = append(elements, element)
	}
	return elements, nil
}

// Elements are those of a field whose lines are joined with commas, without the empty ones
// (RFC 9110 section 5.6.1). Quotes are text here, as to many readers.
func Elements(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for element := range strings.SplitSeq(text, ",") {
			if element = strings.Trim(element, " \t"); element != "" && !yield(element) {
				return
			}
		}
	}
}

// commaInQuotes reports whether some reader finds a comma between quotes: one to which a
// backslash there takes the next byte out, or one to which it does not.
func commaInQuotes(text string) bool {
	quoted, heeding, escaped := false, false, false
	for i := range len(text) {
		c := text[i]
		if c == ',' && (quoted || heeding) {
			return true
		}
		if c == '"' {
			quoted, heeding = !quoted, heeding == escaped
		}
		escaped = heeding && !escaped && c == '\\'
	}
	return false
}

// fieldTwin reports whether a head has the field under another name that some
// server takes for it: CGI and WSGI make one variable of X_Action and X-Action.
// The key is canonical.
func fieldTwin(header http.Header, key string) bool {
	for name := range header {
		if name != key && len(name) == len(key) && sameField(name, key) {
			return true
		}
	}
	return false
}

func sameField(a, b string) bool {
	for i := range len(a) {
		if foldField(a[i]) != foldField(b[i]) {
			return false
		}
	}
	return true
}

func foldField(c byte) byte {
	switch {
	case c == '_':
		return '-'
	case c >= 'A' && c <= 'Z':
		return c + 'a' - 'A'
	}
	return c
}

func otherField(key string) *Error {
	return badInput(reasonDuplicateParameter, "header field %s is also given in another spelling", key)
}
