package object

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/runtime"
)

// maxDepth is how deep a body may be nested.
const maxDepth = 64

// strict refuses what two readers could read in two ways: bytes that are no UTF-8
// and names that stand twice in an object; what is nested without end; and of an object with
// known members, others: one in another case too, which the decoder takes for the same. The
// data is one JSON value, as whoever has decoded it knows.
func strict(data []byte, known ...member) *trouble {
	if !utf8.Valid(data) {
		return &trouble{why: "it is not UTF-8"}
	}
	var open []level
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if len(open) == maxDepth {
				return &trouble{why: fmt.Sprintf("it is nested deeper than %d", maxDepth)}
			}
			open = append(open, level{name: data[i] == '{', object: data[i] == '{'})
		case '}', ']':
			open = open[:len(open)-1]
		case ':':
			open[len(open)-1].name = false
		case ',':
			here := &open[len(open)-1]
			here.name = here.object
		case '"':
			text := data[i : i+textLength(data[i:])]
			i += len(text) - 1
			if len(open) == 0 || !open[len(open)-1].name {
				continue
			}
			name := unquoted(text)
			if open[len(open)-1].has(name) {
				return &trouble{reason: runtime.ReasonDuplicateKey, why: fmt.Sprintf("%.40q stands twice in one object", name)}
			}
			if len(open) == 1 && len(known) > 0 && !slices.ContainsFunc(known, func(m member) bool { return m.name == string(name) }) {
				return stray(string(name), known)
			}
		}
	}
	return nil
}

// textLength is how long the text at the beginning of valid JSON is, with both its quotes.
func textLength(data []byte) int {
	for i := 1; ; i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// unquoted is what a valid text says.
func unquoted(text []byte) []byte {
	if !bytes.ContainsRune(text, '\\') {
		return text[1 : len(text)-1]
	}
	var said string
	_ = json.Unmarshal(text, &said) // it is valid
	return []byte(said)
}

// level is one open object or list.
type level struct {
	object bool
	name   bool                // of an object: the next text is a name
	few    [][]byte            // the names so far, while they are few
	many   map[string]struct{} // later
}

// fewNames is how many names are looked through rather than looked up.
const fewNames = 8

// has notes a name and reports whether it was there before.
func (l *level) has(name []byte) bool {
	if l.many == nil && len(l.few) < fewNames {
		found := slices.ContainsFunc(l.few, func(other []byte) bool { return bytes.Equal(other, name) })
		l.few = append(l.few, name)
		return found
	}
	if l.many == nil {
		l.many = make(map[string]struct{}, 2*fewNames)
		for _, n := range l.few {
			l.many[string(n)] = struct{}{}
		}
	}
	_, found := l.many[string(name)]
	l.many[string(name)] = struct{}{}
	return found
}
