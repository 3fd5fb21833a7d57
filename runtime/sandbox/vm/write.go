package vm

import (
	"math/big"
	"reflect"
	"slices"

	"github.com/dop251/goja"
)

// Bounds of JSON: how deep it nests, and how long a text a script may make for itself.
const (
	maxNesting = 1000
	maxText    = 32 << 20
)

// over says why a value was not written.
type over byte

const (
	written over = iota
	tooLong
	tooDeep
)

// codec are the JSON functions, captured before the script can replace them.
type codec struct {
	stringify goja.Callable
	forEach   map[string]goja.Callable // of Map and Set
}

// makeCodec captures what writes JSON, and puts functions in its place that are bounded:
// those of goja recurse as deep as a value nests, and speak of Go in their errors.
func (s *script) makeCodec() {
	json := s.global("JSON")
	s.json.stringify, _ = s.callable(json.Get("stringify"))
	s.method(json, "stringify", 3, s.stringify)
	s.method(json, "parse", 2, s.parseJSON)
}

// captureCollections captures what walks over a Map and a Set.
func (s *script) captureCollections() {
	s.json.forEach = map[string]goja.Callable{}
	for _, name := range []string{"Map", "Set"} {
		if s.program.Uses(name) { // else there can be none
			s.json.forEach[name], _ = s.callable(s.prototype(name).Get("forEach"))
		}
	}
}

// writer counts what a value's JSON takes while it is written, so that one that would
// take too much costs no more than its bound.
type writer struct {
	s      *script
	limit  int
	size   int
	open   []*goja.Object // the objects inside each other that are being written
	over   over
	hollow hollow        // the first of what is no more than {} in JSON
	then   goja.Callable // the script's own replacer
	shows  bool          // to a person, to whom is said what JSON cannot say
}

func (s *script) writer(limit int) *writer { return &writer{s: s, limit: limit} }

// hollow is something whose content JSON does not have, for people; "" is nothing such.
type hollow string

// saved says how each is written so that it is there.
var saved = map[hollow]string{
	"a promise": "await it, and a list of them with await Promise.all(list)",
	"a Map":     "write Object.fromEntries(map), or [...map]",
	"a Set":     "write [...set]",
}

// loses is what an object is of that.
func (s *script) loses(o *goja.Object) hollow {
	if o.ExportType() == reflect.TypeFor[*goja.Promise]() {
		return "a promise"
	}
	if kind := s.collection(o); kind != "" {
		return hollow("a " + kind)
	}
	return ""
}

// value is called for each value, with the object that holds it, before it is written.
func (w *writer) value(c goja.FunctionCall) goja.Value {
	v := c.Argument(1)
	if w.then != nil {
		var err error
		if v, err = w.then(c.This, c.Argument(0), v); err != nil {
			panic(err)
		}
	}
	if holder, ok := c.This.(*goja.Object); ok {
		w.enter(holder)
	}
	if w.shows {
		v = w.shown(v)
	}
	if o, ok := v.(*goja.Object); ok && w.hollow == "" {
		w.hollow = w.s.loses(o)
	}
	w.size += 3 + length(c.Argument(0)) + length(v)
	switch {
	case w.limit > 0 && w.size > w.limit+16:
		w.over = tooLong
	case len(w.open) > maxNesting:
		w.over = tooDeep
	}
	if w.over != written {
		return w.s.rangeError("The value is too large to be written")
	}
	return v
}

// shown is a value, or a text in the place of what would end the writing, and of an error,
// of which nothing would be left.
func (w *writer) shown(v goja.Value) goja.Value {
	o, ok := v.(*goja.Object)
	switch {
	case !ok && v.ExportType() == reflect.TypeFor[*big.Int]():
		return w.s.rt.ToValue(v.String() + "n")
	case ok && slices.Contains(w.open, o):
		return w.s.rt.ToValue("[Circular]")
	case ok && o.ClassName() == "Error" && len(o.Keys()) == 0:
		return w.s.rt.ToValue("[" + header(property(o, "name"), clean(property(o, "message"))) + "]")
	}
	return v
}

// enter notes the object whose value comes now: the one before, one that holds it, or
// one inside it.
func (w *writer) enter(holder *goja.Object) {
	for i := len(w.open) - 1; i >= 0; i-- {
		if w.open[i] == holder {
			w.open = w.open[:i+1]
			return
		}
	}
	w.open = append(w.open, holder)
}

// length is about how many bytes of JSON a value takes by itself, and never more.
func length(v goja.Value) int {
	if text, ok := v.(goja.String); ok {
		return text.Length()
	}
	return 0
}

// write is the JSON of a value, "" for what has none. A value that throws while it is
// written panics as goja's natives do.
func (w *writer) write(v goja.Value) (string, over) {
	text, why, err := w.tryWrite(v)
	if err != nil {
		panic(err)
	}
	return text, why
}

// tryWrite is write for who wants to know what was thrown.
func (w *writer) tryWrite(v goja.Value) (string, over, error) {
	out, err := w.s.json.stringify(goja.Undefined(), v, w.s.native("", 2, w.value))
	switch {
	case w.over != written:
		return "", w.over, nil
	case err != nil:
		return "", written, err
	case goja.IsUndefined(out):
		return "", written, nil
	}
	text := out.String()
	if w.limit > 0 && len(text) > w.limit {
		return "", tooLong, nil
	}
	return text, written, nil
}

// stringify is JSON.stringify.
func (s *script) stringify(c goja.FunctionCall) goja.Value {
	w := s.writer(maxText)
	replacer := c.Argument(1)
	guard := goja.Value(s.native("", 2, w.value))
	if f, ok := s.callable(replacer); ok {
		w.then = f
	} else if list, ok := replacer.(*goja.Object); ok && list.ClassName() == "Array" {
		if list.Get("length").ToInteger() > maxText/1024 {
			return s.rangeError("The list of keys is too long")
		}
		guard = list
	}
	gap := gapOf(c.Argument(2))
	out, err := s.json.stringify(c.This, c.Argument(0), guard)
	if err != nil {
		panic(err)
	}
	if gap == "" || goja.IsUndefined(out) {
		return out
	}
	text, ok := indented(out.String(), gap)
	if !ok {
		return s.rangeError("The value is too large to be written")
	}
	return s.rt.ToValue(text)
}
