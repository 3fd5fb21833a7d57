package vm

import (
	"errors"
	goruntime "runtime"

	"github.com/dop251/goja"
)

// errorsOf are the constructors of errors, captured before the script runs.
type errorsOf struct {
	plain, typeError, rangeError, syntaxError *goja.Object

	all  *goja.Object // the prototype of AggregateError
	tool *goja.Object // the prototype of ToolError
	busy bool         // one is being put into words
}

// bootstrap reaches the two prototypes that no global name leads to.
const bootstrap = `[Object.getPrototypeOf(async()=>{}),Object.getPrototypeOf(function*(){})]`

// harden takes away what compiles text to code, the global object, what leads from
// an object to its prototype without a name for it, and what only goja has.
func (s *script) harden() {
	world := s.rt.GlobalObject()
	s.errors = errorsOf{
		plain: s.global("Error"), typeError: s.global("TypeError"), rangeError: s.global("RangeError"),
		syntaxError: s.global("SyntaxError"), all: s.prototype("AggregateError"),
	}
	kinds, err := s.rt.RunString(bootstrap)
	s.must(err)
	function := s.prototype("Function")
	for _, p := range []goja.Value{function, kinds.(*goja.Object).Get("0"), kinds.(*goja.Object).Get("1")} {
		thrower := s.native("Function", 1, func(goja.FunctionCall) goja.Value {
			return s.typeError("Text cannot be made code in sandboxed code")
		})
		s.must(p.(*goja.Object).DefineDataProperty("constructor", thrower, goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE))
	}
	for _, name := range []string{"Function", "eval", "GoError", "globalThis", "escape", "unescape"} {
		s.must(world.Delete(name))
	}
	for _, name := range []string{"caller", "arguments"} {
		s.must(function.Delete(name))
	}
	object := s.prototype("Object")
	for _, name := range []string{"__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__"} {
		s.must(object.Delete(name))
	}
}

// coverFaults guards the methods in which goja takes for granted what a script can take
// away: it would end the script where the language has it throw.
func (s *script) coverFaults() {
	object, array, regExp := s.prototype("Object"), s.prototype("Array"), s.prototype("RegExp")
	s.method(object, "toLocaleString", 0, s.sound(s.builtIn(object, "toLocaleString")))
	s.method(array, "sort", 1, s.sound(s.stable(s.builtIn(array, "sort")))) // of a list that its comparison cuts off
	for _, name := range []string{
		"assign", "defineProperties", "entries", "freeze", "getOwnPropertyDescriptors", "getOwnPropertyNames", "getOwnPropertySymbols",
		"isFrozen", "isSealed", "keys", "seal", "values",
	} {
		s.soundly(s.global("Object"), name) // of a proxy that is revoked, or leaves out keys, while it lists them
	}
	s.soundly(s.global("Reflect"), "ownKeys")
	for _, symbol := range []*goja.Symbol{goja.SymMatch, goja.SymMatchAll, goja.SymReplace, goja.SymSearch, goja.SymSplit} {
		inner := regExp.GetSymbol(symbol).(*goja.Object)
		outer := s.native(inner.Get("name").String(), int(inner.Get("length").ToInteger()), s.sound(inner.Export().(direct)))
		s.must(regExp.DefineDataPropertySymbol(symbol, outer, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	}
}

// soundly guards one method.
func (s *script) soundly(on *goja.Object, name string) {
	length := int(on.Get(name).(*goja.Object).Get("length").ToInteger())
	s.method(on, name, length, s.sound(s.builtIn(on, name)))
}

// sound is a native whose faults are errors of the script.
func (s *script) sound(inner direct) direct {
	return func(c goja.FunctionCall) (out goja.Value) {
		defer func() {
			broken := recover()
			if broken == nil {
				return
			}
			var fault goruntime.Error
			if err, ok := broken.(error); ok && errors.As(err, &fault) && !tooMuch(fault) {
				out = s.typeError("This method cannot do that with this object")
				return
			}
			panic(broken)
		}()
		if thrown := s.rt.Try(func() { out = inner(c) }); thrown != nil {
			panic(thrown)
		}
		return out
	}
}

// furnish puts in what this script may use beside the language and tools.
func (s *script) furnish() {
	s.captureCollections()
	// Nothing reaches a global by a name that it does not say, so the rest is made on demand.
	if s.program.Uses("console") {
		s.makeConsole()
	}
	for _, name := range []string{"setTimeout", "setInterval", "clearTimeout", "clearInterval", "queueMicrotask"} {
		if s.program.Uses(name) {
			s.makeTimers()
			break
		}
	}
	s.fill()
}
