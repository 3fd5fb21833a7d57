package object

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/runtime"
)

// maxDepth is how deep a body may be nested.
const maxDepth = 64

// strict refuses what two readers could read in two ways: bytes that are no UTF-8
// and names that stand twice in an object; what is nested without end; and of an object with
// known members, others: one in another case too, which the decoder takes for the same. That
// the data is one JSON value is for whoever has decoded it to know.
func strict(data []byte, known ...member) (t *trouble) {
	if !utf8.Valid(data) {
		return &trouble{why: "it is not UTF-8"}
	}
	whole := eachName(data, maxDepth, func(depth int, name []byte, twice bool) bool {
		switch {
		case twice:
			t = &trouble{reason: runtime.ReasonDuplicateKey, why: TwiceText(string(name))}
		case depth == 1 && len(known) > 0 && !slices.ContainsFunc(known, func(m member) bool { return m.name == string(name) }):
			t = stray(string(name), known)
		}
		return t == nil
	})
	if !whole {
		return &trouble{why: fmt.Sprintf("it is nested deeper than %d", maxDepth)}
	}
	return t
}

// Twice is a name that stands twice in one object of a JSON value, in as many levels of it
// as are given; false where there is none. What is no JSON ends the search.
func Twice(data []byte, levels int) (name string, is bool) {
	eachName(data, math.MaxInt, func(depth int, n []byte, twice bool) bool {
		if is = twice && depth <= levels; is {
			name = string(n)
		}
		return !is
	})
	return name, is
}

// TwiceText says of a name that it stands twice.
func TwiceText(name string) string { return fmt.Sprintf("%.40q stands twice in one object", name) }

// eachName visits the names of one JSON value, each with the depth of its object and whether
// it was there before, until visit wants no more. False: it is nested deeper than may be. Of
// what is no JSON it visits what it takes for names, up to where nothing can follow.
func eachName(data []byte, deepest int, visit func(depth int, name []byte, twice bool) bool) bool {
	open := []level{{}} // the first is around the value
	for i := 0; i < len(data); i++ {
		depth := len(open) - 1
		here := &open[depth]
		switch data[i] {
		case '{', '[':
			if depth == deepest {
				return false
			}
			open = append(open, level{name: data[i] == '{', object: data[i] == '{'})
		case '}', ']':
			if depth == 0 {
				return true
			}
			open = open[:depth]
		case ':':
			here.name = false
		case ',':
			here.name = here.object
		case '"':
			text := data[i : i+textLength(data[i:])]
			if len(text) == 0 {
				return true
			}
			i += len(text) - 1
			if !here.name {
				continue
			}
			name := unquoted(text)
			if !visit(depth, name, here.has(name)) {
				return true
			}
		}
	}
	return true
}

// textLength is how long the text at the beginning is, with both its quotes; 0 where it does
// not end.
func textLength(data []byte) int {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}

// unquoted is what a text says, nothing where it is not valid.
func unquoted(text []byte) []byte {
	if !bytes.ContainsRune(text, '\\') {
		return text[1 : len(text)-1]
	}
	var said string
	_ = json.Unmarshal(text, &said)
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
