package classifier

import (
	"bytes"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/classifier/strictjson"
)

// Body is a request body as [ParseBody] read it. It is not changed after that.
type Body struct {
	json  any // the document; nil also for none
	form  map[string][]string
	given bool // there was a body at all

	parts   []byte // their heads, of a body of which no more is known
	inParts bool   // it is such a one
}

// Value is the body as policy sees it: the JSON document, or for a form an
// object of its fields (a string, or []any where a field is repeated); nil for
// an empty body. The caller must not change it.
func (b *Body) Value() any {
	if b == nil || b.form == nil {
		if b == nil {
			return nil
		}
		return b.json
	}
	fields := make(map[string]any, len(b.form))
	for name, values := range b.form {
		fields[name] = oneOrMany(values)
	}
	return fields
}

func oneOrMany(values []string) any {
	if len(values) == 1 {
		return values[0]
	}
	return list(values)
}

func list(values []string) []any {
	many := make([]any, len(values))
	for i, v := range values {
		many[i] = v
	}
	return many
}

// ParseBody reads a whole body strictly. JSON (application/json, application/*+json)
// must be one document in UTF-8 without duplicate names, byte order mark or data
// after it; numbers keep their digits. A form (application/x-www-form-urlencoded)
// must be and decode to UTF-8 and not use ";". An empty body is valid and has no value.
// Everything else, any Content-Encoding but identity (see [Unpack]) and any other
// charset than UTF-8, is refused with reason unsupported_media. The error is an
// [*Error] with code invalid_input.
func ParseBody(contentType, contentEncoding string, raw []byte) (*Body, error) {
	if coding := strings.TrimSpace(contentEncoding); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, unsupported("send the body without a Content-Encoding")
	}
	if len(raw) == 0 {
		return &Body{}, nil
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, unsupported("the Content-Type is missing or not valid")
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") || OtherCharset([]string{contentType}) {
		return nil, unsupported("the charset must be utf-8")
	}
	switch {
	case jsonMedia(media) && IsForm(contentType):
		if !looksJSON(raw) {
			return nil, unsupported("its Content-Type is that of JSON and of a form")
		}
		return parseUntold(raw)
	case jsonMedia(media):
		document, err := strictjson.Parse(raw)
		if err != nil {
			return nil, notJSON(err)
		}
		return &Body{json: document, given: true}, nil
	case media == "application/x-www-form-urlencoded":
		if looksJSON(raw) {
			return parseUntold(raw)
		}
		if !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0 { // JSON in UTF-16 too, to whom looks what it is
			return nil, unsupported("it is no form in UTF-8")
		}
		fields, err := parseForm(string(raw))
		if err != nil {
			return nil, err
		}
		return &Body{form: fields, given: true}, nil
	}
	return nil, unsupported(fmt.Sprintf("%s is neither JSON nor a form", shown(media)))
}

// parseUntold reads JSON that calls itself a form, as curl -d sends it: many servers read
// it as what it is. To the others it is one field whose name begins with a bracket, which
// decides nothing; one that could have more fields is refused.
func parseUntold(raw []byte) (*Body, error) {
	document, err := strictjson.Parse(raw)
	if err != nil || bytes.ContainsAny(raw, "&;") {
		return nil, unsupported("it looks like JSON and calls itself a form: send Content-Type: application/json")
	}
	return &Body{json: document, given: true}, nil
}

// looksJSON reports whether a text begins as a JSON object or array does. A form does
// not: its encoding escapes a bracket.
func looksJSON(raw []byte) bool {
	raw = bytes.TrimLeft(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf")), " \t\r\n\v\f")
	return len(raw) > 0 && (raw[0] == '{' || raw[0] == '[')
}

func unsupported(why string) *Error {
	return badInput(reasonUnsupportedMedia, "the body decides what this request does and cannot be read: %s", why)
}

func parseForm(raw string) (map[string][]string, *Error) {
	if strings.IndexByte(raw, ';') >= 0 {
		return nil, badInput(reasonAmbiguousParameter, "the form holds a raw \";\", which some servers take for a separator: send it as %%3B")
	}
	fields := map[string][]string{}
	for raw != "" {
		var pair, rawKey, rawValue string
		pair, rawKey, rawValue, raw = nextPair(raw)
		if pair == "" {
			continue
		}
		key, err := unescapeQuery(rawKey)
		if err == nil {
			rawValue, err = unescapeQuery(rawValue)
		}
		if err != nil {
			return nil, badInput(reasonInvalidTarget, "%s", err.Msg)
		}
		fields[key] = append(fields[key], rawValue)
	}
	return fields, nil
}

// parsePointer splits a JSON pointer (RFC 6901). A text without a leading slash
// is the name of one top-level member or form field.
func parsePointer(pointer string) ([]string, error) {
	if pointer == "" {
		return nil, nil
	}
	if pointer[0] != '/' {
		return []string{pointer}, nil
	}
	tokens := strings.Split(pointer[1:], "/")
	if strings.IndexByte(pointer, '~') < 0 {
		return tokens, nil
	}
	for i, token := range tokens {
		if rest := strings.NewReplacer("~0", "", "~1", "").Replace(token); strings.Contains(rest, "~") {
			return nil, fmt.Errorf("%q is not a JSON pointer: \"~\" is written \"~0\"", pointer)
		}
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
	}
	return tokens, nil
}

// strictness says which spellings of a name are not taken for it. All others are
// refused, also alone: some reader would see what was not judged.
type strictness struct {
	known    map[string]bool // names that are read by themselves
	elements bool            // a form has "name[…]" for a part of it
}

// lookup finds what a pointer names. Form fields are strings, or []any where a
// field is repeated.
func (b *Body) lookup(tokens []string, how strictness) (value any, found bool, err *Error) {
	switch {
	case b.inParts:
		return nil, false, b.partNamed(tokens)
	case b.form != nil:
		return b.field(tokens, how)
	case !b.given:
		return nil, false, nil
	}
	value = b.json
	for _, token := range tokens {
		switch v := value.(type) {
		case map[string]any:
			if value, found, err = member(v, token, how); err != nil || !found {
				return nil, false, err
			}
		case []any:
			i, ok := arrayIndex(token, len(v))
			if !ok {
				return nil, false, nil
			}
			value = v[i]
		default:
			return nil, false, nil
		}
	}
	return value, true, nil
}

func member[V any](members map[string]V, name string, how strictness) (value V, found bool, err *Error) {
	value, found = members[name]
	first, alike := "", false // of several, so that the same body always has the same answer
	for other := range members {
		if other != name && strings.EqualFold(other, name) && !how.known[other] && (!alike || other < first) {
			first, alike = other, true
		}
	}
	if alike {
		return value, false, badInput(reasonDuplicateKey, "the body has the member %s, which differs from %s in case only", shown(first), shown(name))
	}
	return value, found, nil
}

func (b *Body) field(tokens []string, how strictness) (any, bool, *Error) {
	if len(tokens) == 0 {
		return b.Value(), true, nil
	}
	if len(tokens) != 1 {
		return nil, false, nil
	}
	values, found, err := member(b.form, tokens[0], how)
	if err != nil || !found && how.elements {
		return nil, false, err
	}
	for other := range b.form {
		if other != tokens[0] && SameParameter(other, tokens[0]) && !how.known[other] {
			return nil, false, otherSpelling(tokens[0])
		}
	}
	if !found {
		return nil, false, nil
	}
	return oneOrMany(values), true, nil
}

func arrayIndex(token string, length int) (int, bool) {
	if !isDigits(token) || len(token) > 9 || len(token) > 1 && token[0] == '0' {
		return 0, false
	}
	i := 0
	for _, c := range token {
		i = i*10 + int(c-'0')
	}
	return i, i < length
}

// Names reports whether a body has a member, field or part that some reader would take for
// one of that name.
func (b *Body) Names(name string) bool {
	if _, found, err := b.lookup([]string{name}, strictness{}); found || err != nil {
		return true
	}
	for key := range b.form {
		if SamePart(key, name) {
			return true
		}
	}
	return false
}

// noObject reports whether a document has something else where a pointer goes on: a list or a
// text where there is an object to the service, or one of these alone where there is a list of
// them, which some servers take for a list of one. Null says nothing within it.
func (b *Body) noObject(tokens []string) bool {
	if b == nil || !b.given || b.inParts || b.form != nil {
		return false
	}
	value := b.json
	for i, token := range tokens {
		switch v := value.(type) {
		case map[string]any:
			if _, found := v[token]; !found && isDigits(token) && isRecord(v) {
				return true
			}
			value = v[token] // what is not there is as null
		case []any:
			at, ok := arrayIndex(token, len(v))
			if !ok {
				return !isDigits(token)
			}
			value = v[at]
		case nil:
			return i == 0 && !isDigits(token)
		default:
			return true
		}
	}
	return false
}

// isRecord reports whether an object has a name that is no number: its service has no list there.
func isRecord(members map[string]any) bool {
	for name := range members {
		if !isDigits(name) {
			return true
		}
	}
	return false
}

// has reports whether a top-level member or form field is there.
func (b *Body) has(name string) bool {
	if b == nil {
		return false
	}
	if b.inParts {
		return b.partNamed([]string{name}) != nil
	}
	if _, ok := b.form[name]; ok {
		return true
	}
	members, _ := b.json.(map[string]any)
	_, ok := members[name]
	return ok
}
