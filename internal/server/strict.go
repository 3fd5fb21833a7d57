package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
			if open[here].seen[name] {
				return notJSON(runtime.ReasonDuplicateKey, fmt.Sprintf("%.40q stands twice in one object", name))
			}
			open[here].seen[name] = true
			continue
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{seen: map[string]bool{}})
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
	seen  map[string]bool // of an object
	value bool            // the name was read, its value is next
}

// name reports whether the next text of the level is a name, and takes it so.
func (l *level) name() bool {
	if l.seen == nil || l.value {
		return false
	}
	l.value = true
	return true
}

func notJSON(reason runtime.Reason, why string) error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Reason: reason, Msg: "the request is not understood: " + why, Hint: "see /v1/openapi.json"}
}
