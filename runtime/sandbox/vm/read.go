package vm

import (
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dop251/goja"
)

var (
	errNoJSON  = errors.New("this is no JSON")
	errTooDeep = errors.New("this JSON nests too deep")
)

// reader reads a JSON text (RFC 8259) into values of a script. It is ours because goja's
// own recurses without bound, and speaks of Go in its errors.
type reader struct {
	rt    *goja.Runtime
	text  string
	at    int
	depth int
}

// parse is the value of a JSON text; of an empty one it is undefined.
func (s *script) parse(text string) (goja.Value, error) {
	if text == "" {
		return goja.Undefined(), nil
	}
	r := &reader{rt: s.rt, text: text}
	v, err := r.value()
	if r.space(); err == nil && r.at < len(text) {
		err = errNoJSON
	}
	return v, err
}

// parseJSON is JSON.parse.
func (s *script) parseJSON(c goja.FunctionCall) goja.Value {
	r := &reader{rt: s.rt, text: c.Argument(0).String()}
	v, err := r.value()
	if r.space(); err == nil && r.at < len(r.text) {
		err = errNoJSON
	}
	switch {
	case errors.Is(err, errTooDeep):
		return s.rangeError("The JSON nests too deep")
	case err != nil && r.at >= len(r.text):
		return s.syntaxError("Unexpected end of JSON input")
	case err != nil:
		token, _ := utf8.DecodeRuneInString(r.text[r.at:])
		return s.syntaxError("Unexpected token '" + string(token) + "' in JSON at position " + strconv.Itoa(r.at))
	}
	if revive, ok := s.callable(c.Argument(1)); ok {
		root := s.rt.NewObject()
		s.must(root.Set("", v))
		return s.revive(revive, root, "", 0)
	}
	return v
}

// revive gives every value to a function of the script, the innermost first.
func (s *script) revive(f goja.Callable, holder *goja.Object, key string, depth int) goja.Value {
	value := holder.Get(key)
	if o, ok := value.(*goja.Object); ok {
		if depth > 2*maxNesting {
			return s.rangeError("The JSON nests too deep")
		}
		for _, k := range o.Keys() {
			v := s.revive(f, o, k, depth+1)
			var err error
			if goja.IsUndefined(v) {
				err = o.Delete(k)
			} else {
				err = o.DefineDataProperty(k, v, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_TRUE)
			}
			if err != nil {
				panic(err)
			}
		}
	}
	if value == nil {
		value = goja.Undefined()
	}
	out, err := f(holder, s.rt.ToValue(key), value)
	if err != nil {
		panic(err)
	}
	return out
}

func (r *reader) space() {
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return
		}
	}
}

// peek is the next byte that is no space, or 0.
func (r *reader) peek() byte {
	if r.space(); r.at < len(r.text) {
		return r.text[r.at]
	}
	return 0
}

func (r *reader) value() (goja.Value, error) {
	switch c := r.peek(); {
	case c == '{':
		return r.inside(r.object)
	case c == '[':
		return r.inside(r.array)
	case c == '"':
		return r.quoted()
	case c == 't':
		return r.literal("true", r.rt.ToValue(true))
	case c == 'f':
		return r.literal("false", r.rt.ToValue(false))
	case c == 'n':
		return r.literal("null", goja.Null())
	case c == '-' || c >= '0' && c <= '9':
		return r.number()
	}
	return nil, errNoJSON
}

func (r *reader) inside(f func() (goja.Value, error)) (goja.Value, error) {
	if r.depth++; r.depth > maxNesting {
		return nil, errTooDeep
	}
	r.at++
	v, err := f()
	r.depth--
	return v, err
}

func (r *reader) literal(word string, v goja.Value) (goja.Value, error) {
	if len(r.text)-r.at < len(word) || r.text[r.at:r.at+len(word)] != word {
		return nil, errNoJSON
	}
	r.at += len(word)
	return v, nil
}

func (r *reader) object() (goja.Value, error) {
	o := r.rt.NewObject()
	if r.peek() == '}' {
		r.at++
		return o, nil
	}
	for {
		if r.peek() != '"' {
			return nil, errNoJSON
		}
		key, err := r.quoted()
		if err != nil {
			return nil, err
		}
		if r.peek() != ':' {
			return nil, errNoJSON
		}
		r.at++
		v, err := r.value()
		if err != nil {
			return nil, err
		}
		// Defined, not set: a key __proto__ is a key.
		if err := o.DefineDataProperty(key.String(), v, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_TRUE); err != nil {
			return nil, err
		}
		if done, err := r.separator('}'); done || err != nil {
			return o, err
		}
	}
}

func (r *reader) array() (goja.Value, error) {
	var list []any
	if r.peek() == ']' {
		r.at++
		return r.rt.NewArray(), nil
	}
	for {
		v, err := r.value()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if done, err := r.separator(']'); done || err != nil {
			return r.rt.NewArray(list...), err
		}
	}
}

// separator reads a comma, or the bracket that ends a list.
func (r *reader) separator(end byte) (done bool, err error) {
	switch c := r.peek(); c {
	case ',', end:
		r.at++
		return c == end, nil
	}
	return false, errNoJSON
}

// number reads one. What Go takes for a number beyond JSON is refused before.
func (r *reader) number() (goja.Value, error) {
	start := r.at
	if r.text[r.at] == '-' {
		r.at++
	}
	whole := r.at
	r.digits()
	if r.at == whole || (r.text[whole] == '0' && r.at > whole+1) {
		r.at = min(whole+1, r.at)
		return nil, errNoJSON
	}
	if r.at < len(r.text) && r.text[r.at] == '.' {
		r.at++
		if from := r.at; r.digits() == from {
			return nil, errNoJSON
		}
	}
	if r.at < len(r.text) && r.text[r.at]|0x20 == 'e' {
		if r.at++; r.at < len(r.text) && (r.text[r.at] == '+' || r.text[r.at] == '-') {
			r.at++
		}
		if from := r.at; r.digits() == from {
			return nil, errNoJSON
		}
	}
	if n, err := strconv.ParseInt(r.text[start:r.at], 10, 53); err == nil && (n != 0 || r.text[start] != '-') {
		return r.rt.ToValue(n), nil
	}
	n, _ := strconv.ParseFloat(r.text[start:r.at], 64) // out of range is infinity, as in JavaScript
	return r.rt.ToValue(n), nil
}

func (r *reader) digits() int {
	for r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9' {
		r.at++
	}
	return r.at
}

// quoted reads a text in quotes.
func (r *reader) quoted() (goja.Value, error) {
	r.at++
	start := r.at
	for r.at < len(r.text) {
		switch c := r.text[r.at]; {
		case c == '"':
			r.at++
			return r.rt.ToValue(r.text[start : r.at-1]), nil
		case c == '\\':
			return r.escaped(start)
		case c < 0x20:
			return nil, errNoJSON
		}
		r.at++
	}
	return nil, errNoJSON
}

// escaped reads a text that has escapes, which may be half a pair of surrogates.
func (r *reader) escaped(start int) (goja.Value, error) {
	units := utf16.Encode([]rune(r.text[start:r.at]))
	for r.at < len(r.text) {
		c, size := utf8.DecodeRuneInString(r.text[r.at:])
		switch {
		case c == '"':
			r.at++
			return goja.StringFromUTF16(units), nil
		case c < 0x20:
			return nil, errNoJSON
		case c != '\\':
			units = utf16.AppendRune(units, c)
			r.at += size
			continue
		}
		unit, ok := r.escape()
		if !ok {
			return nil, errNoJSON
		}
		units = append(units, unit)
	}
	return nil, errNoJSON
}

// escape reads what follows a backslash.
func (r *reader) escape() (uint16, bool) {
	if r.at++; r.at >= len(r.text) {
		return 0, false
	}
	c := r.text[r.at]
	plain := map[byte]uint16{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}
	if unit, ok := plain[c]; ok {
		r.at++
		return unit, true
	}
	if c != 'u' || r.at+5 > len(r.text) {
		return 0, false
	}
	n, err := strconv.ParseUint(r.text[r.at+1:r.at+5], 16, 16)
	if err != nil {
		return 0, false
	}
	r.at += 5
	return uint16(n), true
}
