package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/runtime"
)

// maxDepth is how deep a body may be nested.
const maxDepth = 64

// strict refuses what two readers could read in two ways: bytes that are no UTF-8
// and names that stand twice in an object; and what is nested without end.
func strict(data []byte) error {
	if !utf8.Valid(data) {
		return notJSON(runtime.ReasonInvalidJSON, "it is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var open []level
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return nil // whoever decodes it says what is wrong
		}
		here := len(open) - 1
		if name, ok := token.(string); ok && here >= 0 && open[here].name() {
			if open[here].has(name) {
				return notJSON(runtime.ReasonDuplicateKey, fmt.Sprintf("%.40q stands twice in one object", name))
			}
			continue
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{object: true})
		case json.Delim('['):
			open = append(open, level{})
		case json.Delim('}'), json.Delim(']'):
			open = open[:here]
		}
		if len(open) > maxDepth {
			return notJSON(runtime.ReasonInvalidJSON, fmt.Sprintf("it is nested deeper than %d", maxDepth))
		}
		if here = len(open) - 1; here >= 0 && token != json.Delim('{') && token != json.Delim('[') {
			open[here].value = false // the next text of an object is a name again
		}
	}
}

// level is one open object or list.
type level struct {
	object bool
	value  bool                // of an object: the name was read, its value is next
	few    []string            // the names so far, while they are few
	many   map[string]struct{} // later
}

// fewNames is how many names are looked through rather than looked up.
const fewNames = 8

// has notes a name and reports whether it was there before.
func (l *level) has(name string) bool {
	if l.many == nil && len(l.few) < fewNames {
		found := slices.Contains(l.few, name)
		l.few = append(l.few, name)
		return found
	}
	if l.many == nil {
		l.many = make(map[string]struct{}, 2*fewNames)
		for _, n := range l.few {
			l.many[n] = struct{}{}
		}
	}
	_, found := l.many[name]
	l.many[name] = struct{}{}
	return found
}

// name reports whether the next text of the level is a name, and takes it so.
func (l *level) name() bool {
	if !l.object || l.value {
		return false
	}
	l.value = true
	return true
}

func notJSON(reason runtime.Reason, why string) error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Reason: reason, Msg: "the request is not understood: " + why, Hint: "see /v1/openapi.json"}
}
