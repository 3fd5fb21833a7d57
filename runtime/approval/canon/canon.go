// Package canon has the one form of what an approval is bound to: of a JSON document, and of
// arguments. Two that mean different things have different forms.
//
// It refuses what readers could disagree on: a member that stands twice, in another case too,
// text that is not Unicode, and what nests too deep to be shown. It knows no approval.
//
// Start reading at [JSON].
package canon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/runtime"
)

// maxDepth is how deep canonical JSON may nest.
const maxDepth = 256

// errNotCanonical is why a body is taken as raw bytes.
var errNotCanonical = errors.New("no canonical form")

// JSON returns the one form of a JSON document: members sorted by code
// point, no white space, number tokens exactly as written; and what it says. Documents
// that mean different things have different forms; one that readers could disagree on
// (a member twice, or two that differ in case alone, of which some servers take the last;
// text that is not Unicode) has none.
func JSON(data []byte) (form []byte, value any, err error) {
	form, value, err = Former(data)
	if err != nil || alike(value) {
		return nil, nil, errNotCanonical
	}
	return form, value, nil
}

// Former is [JSON] as an earlier kimbap had it, which sorted members that differ in case alone:
// what was bound to that form can be read still.
func Former(data []byte) (form []byte, value any, err error) {
	if !utf8.Valid(data) || !json.Valid(data) {
		return nil, nil, errNotCanonical
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil || members(value) != colons(data) {
		return nil, nil, errNotCanonical // of a member that stands twice the last one is kept
	}
	form, err = appendValue(nil, value, 0)
	if err != nil || bytes.ContainsRune(form, utf8.RuneError) {
		return nil, nil, errNotCanonical // U+FFFD is also what decoders make of text that is not Unicode
	}
	return form, value, nil
}

// members counts those of all objects in a value.
func members(value any) (n int) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			n += members(item)
		}
	case map[string]any:
		n = len(v)
		for _, item := range v {
			n += members(item)
		}
	}
	return n
}

// alike reports whether two members of an object differ in case alone: encoding/json of Go
// and others read both as one, and which they keep is a matter of the order.
func alike(value any) bool {
	switch v := value.(type) {
	case []any:
		return slices.ContainsFunc(v, alike)
	case map[string]any:
		seen := make(map[string]bool, len(v))
		for name, item := range v {
			if name = strings.Map(oneCase, name); seen[name] || alike(item) {
				return true
			}
			seen[name] = true
		}
	}
	return false
}

// oneCase is the same for all letters that readers take for one.
func oneCase(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }

// colons counts the members that stand in valid JSON.
func colons(data []byte) (n int) {
	inText := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			inText = !inText
		case c == '\\':
			i++ // stands in texts alone
		case c == ':' && !inText:
			n++
		}
	}
	return n
}

// Append writes the form of a value of the kinds that [runtime.Args] may hold.
func Append(b []byte, value any) ([]byte, error) { return appendValue(b, value, 0) }

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
