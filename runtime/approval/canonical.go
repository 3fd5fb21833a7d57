package approval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/runtime"
)

// maxDepth is how deep canonical JSON may nest.
const maxDepth = 256

// errNotCanonical is why a body is taken as raw bytes.
var errNotCanonical = errors.New("no canonical form")

// canonicalJSON returns the one form of a JSON document: members sorted by code
// point, no white space, number tokens exactly as written. Documents that mean
// different things have different forms; one that readers could disagree on
// (a member twice, text that is not Unicode) has none.
func canonicalJSON(data []byte) ([]byte, error) {
	if !utf8.Valid(data) || !json.Valid(data) {
		return nil, errNotCanonical
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	value, err := readValue(decoder, 0)
	if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errNotCanonical
	}
	form, err := appendValue(nil, value, 0)
	if err != nil || bytes.ContainsRune(form, utf8.RuneError) {
		return nil, errNotCanonical // U+FFFD is also what decoders make of text that is not Unicode
	}
	return form, nil
}

// readValue reads one value, refusing a member that stands twice.
func readValue(decoder *json.Decoder, depth int) (any, error) {
	token, err := decoder.Token()
	if err != nil || depth > maxDepth {
		return nil, errNotCanonical
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for decoder.More() {
			item, err := readValue(decoder, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		_, err := decoder.Token()
		return list, err
	case json.Delim('{'):
		object := map[string]any{}
		for decoder.More() {
			key, err := decoder.Token()
			name, ok := key.(string)
			if _, twice := object[name]; err != nil || !ok || twice {
				return nil, errNotCanonical
			}
			if object[name], err = readValue(decoder, depth+1); err != nil {
				return nil, err
			}
		}
		_, err := decoder.Token()
		return object, err
	}
	return token, nil
}

// appendValue writes a value of the kinds that [runtime.Args] may hold.
func appendValue(b []byte, value any, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, errNotCanonical
	}
	switch v := value.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return fmt.Appendf(b, "%t", v), nil
	case json.Number:
		if !json.Valid([]byte(v)) {
			return nil, errNotCanonical
		}
		return append(b, v...), nil
	case string:
		return appendText(b, v)
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendValue(b, item, depth+1); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case map[string]any:
		return appendObject(b, v, depth)
	case runtime.Args:
		return appendObject(b, v, depth)
	}
	return nil, fmt.Errorf("an argument is a %T, which has no canonical form", value)
}

// appendObject sorts by bytes, which for UTF-8 is by code point.
func appendObject(b []byte, object map[string]any, depth int) ([]byte, error) {
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(object)) {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendText(b, name); err != nil {
			return nil, err
		}
		if b, err = appendValue(append(b, ':'), object[name], depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendText quotes a string. Text that is not Unicode has no form: quoting
// would make it one with other text, and a person could not be shown it.
func appendText(b []byte, text string) ([]byte, error) {
	if !utf8.ValidString(text) {
		return nil, errNotCanonical
	}
	quoted, err := json.Marshal(text)
	return append(b, quoted...), err
}
