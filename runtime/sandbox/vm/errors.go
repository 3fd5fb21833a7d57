package vm

import (
	"cmp"
	"errors"
	"strings"

	"github.com/dop251/goja"

	"github.com/kimbap-run/kimbap/runtime/sandbox/gate"
)

// What goja says of an error is written for who wrote the engine: places of the code as
// it was rewritten, native functions, the insides of an object. No hook changes that, so
// an error is put into words of ours ([script.see]) on every way by which a script gets
// hold of one: what a catch clause binds (the gate puts the call there), what a
// constructor of errors makes, and what a promise was rejected with.

// errorKinds are the constructors of errors, the parent first.
func errorKinds() []string {
	return []string{"Error", "TypeError", "RangeError", "SyntaxError", "ReferenceError", "EvalError", "URIError", "AggregateError"}
}

// coverErrors guards those ways.
func (s *script) coverErrors() {
	s.must(s.rt.GlobalObject().DefineDataProperty(gate.See, s.native(gate.See, 1, func(c goja.FunctionCall) goja.Value {
		s.see(c.Argument(0))
		return goja.Undefined()
	}), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE))
	var parent *goja.Object
	for _, name := range errorKinds() {
		isError := s.global("Error").Get("isError")
		class := s.coverKind(name)
		if parent == nil {
			parent = class
			s.hidden(parent, "isError", isError)
			s.method(parent, "captureStackTrace", 2, s.captureStack)
		} else {
			s.must(class.SetPrototype(parent))
		}
	}
}

// coverKind is a constructor in the place of one of goja's, over the same prototype.
func (s *script) coverKind(name string) *goja.Object {
	inner := s.global(name)
	class := s.rt.ToValue(func(c goja.ConstructorCall) *goja.Object {
		o, err := s.rt.New(inner, c.Arguments...)
		if err != nil {
			panic(err)
		}
		if c.NewTarget != nil {
			s.must(o.SetPrototype(c.This.Prototype())) // of a class of the script's
		}
		s.see(o)
		return o
	}).(*goja.Object)
	s.over(name, class, inner)
	return class
}

// captureStack is Error.captureStackTrace, which is V8's: the stack of this moment, from
// behind the last call of a function if one is given by name; a stack does not name classes.
func (s *script) captureStack(c goja.FunctionCall) goja.Value {
	o, ok := c.Argument(0).(*goja.Object)
	if !ok {
		return s.typeError("Error.captureStackTrace takes an object")
	}
	here, err := s.rt.New(s.errors.plain)
	s.must(err)
	_, _, trace := s.trace(property(here, "stack"))
	if f, ok := c.Argument(1).(*goja.Object); ok {
		trace = behind(trace, property(f, "name"))
	}
	text := header(cmp.Or(property(o, "name"), "Error"), property(o, "message"))
	if trace != "" {
		text += "\n" + toldRow[:4] + strings.ReplaceAll(trace, "\n", "\n"+toldRow[:4])
	}
	s.hidden(o, "stack", s.rt.ToValue(text))
	return goja.Undefined()
}

// behind is a trace without the calls up to the first of a function.
func behind(trace, function string) string {
	if _, rest, ok := strings.Cut(trace, "at "+function+" ("); ok && function != "" {
		_, rest, _ = strings.Cut(rest, "\n")
		return rest
	}
	return trace
}

// over gives a constructor the name, the length and the prototype of goja's.
func (s *script) over(name string, class, inner *goja.Object) {
	proto := inner.Get("prototype").(*goja.Object)
	s.must(class.DefineDataProperty("name", s.rt.ToValue(name), goja.FLAG_FALSE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	s.must(class.DefineDataProperty("length", inner.Get("length"), goja.FLAG_FALSE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	s.must(class.DefineDataProperty("prototype", proto, goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE))
	s.hidden(proto, "constructor", class)
	s.hidden(s.rt.GlobalObject(), name, class)
}

// see puts an error into words of ours. One that has them, or whose stack the script
// has written itself, stays as it is; what the script's own getters throw meanwhile is
// no reason to fail.
func (s *script) see(v goja.Value) {
	o, ok := v.(*goja.Object)
	if !ok || s.errors.busy || o.ClassName() != "Error" {
		return
	}
	s.errors.busy = true
	err := s.guarded(func() { s.reword(o) })
	s.errors.busy = false
	var thrown *goja.Exception
	if err != nil && !errors.As(err, &thrown) {
		panic(err) // a limit
	}
}

func (s *script) reword(o *goja.Object) {
	if said := property(o, "message"); clean(said) != said {
		s.hidden(o, "message", s.rt.ToValue(clean(said)))
	}
	stack := property(o, "stack")
	if !strings.Contains(stack, rawRow) {
		return
	}
	text := header(property(o, "name"), property(o, "message"))
	if _, _, trace := s.trace(stack); trace != "" {
		text += "\n    " + strings.ReplaceAll(trace, "\n", "\n    ")
	}
	s.hidden(o, "stack", s.rt.ToValue(text))
}

// header is an error without its stack: Name: message.
func header(name, message string) string {
	return strings.TrimPrefix(strings.TrimSuffix(name+": "+message, ": "), ": ")
}

// clean takes out of a message what goja says of its own insides.
func clean(message string) string {
	if before, after, found := strings.Cut(message, "%!s(PANIC="); found {
		// goja wrote a value that throws when it is made a text: in place of it stand the
		// engine's insides, up to the last parenthesis.
		_, after, _ = cutLast(after, ")")
		message = before + "[object Object]" + after
	}
	message = strings.TrimSuffix(message, " %!s(MISSING)")
	switch {
	case strings.HasPrefix(message, "Could not convert ") && strings.HasSuffix(message, " to primitive"):
		return "Cannot convert object to primitive value"
	case message == "Value is not object coercible":
		return "Cannot destructure undefined or null, nor use it as an object"
	case message == "Object has no member 'Symbol.iterator'":
		return "object is not iterable"
	case strings.HasPrefix(message, "Object has no member '"):
		return strings.TrimSuffix(strings.TrimPrefix(message, "Object has no member '"), "'") + " is not a function"
	case strings.HasPrefix(message, "Not a function: "):
		return strings.TrimPrefix(message, "Not a function: ") + " is not a function"
	case strings.HasPrefix(message, "Receiver is not an object: "):
		return "Receiver is not an object"
	case strings.HasPrefix(message, "Invalid regular expression (re"):
		return gate.RegexWords(message)
	case strings.HasPrefix(message, "encoding/hex: "):
		return "This is no text of hexadecimal digits"
	case strings.HasPrefix(message, "Runtime bug: "), strings.HasPrefix(message, "Compiler bug: "), strings.HasPrefix(message, "Internal bug: "):
		return "The engine cannot do this"
	}
	return strings.ToValidUTF8(message, "\ufffd") // goja writes names that are not ASCII as they lie in memory
}
