package vm

import "github.com/dop251/goja"

// native is a function of a script's world that is written in Go. goja names one after
// the Go function it is, which a script could read: here it has the name given.
func (s *script) native(name string, length int, f func(goja.FunctionCall) goja.Value) *goja.Object {
	o := s.rt.ToValue(f).(*goja.Object)
	s.must(o.DefineDataProperty("name", s.rt.ToValue(name), goja.FLAG_FALSE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	s.must(o.DefineDataProperty("length", s.rt.ToValue(length), goja.FLAG_FALSE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	return o
}

// method puts a native on an object, as built-in methods are: not enumerable.
func (s *script) method(on *goja.Object, name string, length int, f func(goja.FunctionCall) goja.Value) *goja.Object {
	o := s.native(name, length, f)
	s.hidden(on, name, o)
	return o
}

// hidden puts a value on an object, not enumerable.
func (s *script) hidden(on *goja.Object, name string, v goja.Value) {
	s.must(on.DefineDataProperty(name, v, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE))
}

// must is for what cannot go wrong while the world is built.
func (s *script) must(err error) {
	if err != nil {
		panic(err)
	}
}

// direct is a function of the engine as goja itself calls it.
type direct = func(goja.FunctionCall) goja.Value

// callable is a function that a native calls. Unlike [goja.AssertFunction] it does not
// take the call for one from outside when the native is run as a job of a promise,
// where it would run all other jobs inside of this one: out of their turn, and one
// inside the other without end.
func (s *script) callable(v goja.Value) (goja.Callable, bool) {
	if _, ok := goja.AssertFunction(v); !ok {
		return nil, false
	}
	call, ok := v.Export().(direct)
	if !ok { // a class, or a proxy
		call = func(c goja.FunctionCall) goja.Value {
			list := make([]any, len(c.Arguments))
			for i, v := range c.Arguments {
				list[i] = v
			}
			return s.apply(goja.FunctionCall{Arguments: []goja.Value{v, c.This, s.rt.NewArray(list...)}})
		}
	}
	return func(this goja.Value, args ...goja.Value) (out goja.Value, err error) {
		if thrown := s.rt.Try(func() { out = call(goja.FunctionCall{This: this, Arguments: args}) }); thrown != nil {
			return nil, thrown
		}
		return out, nil
	}, true
}

// direct is [script.callable] as goja itself calls a function: what it throws goes on to
// the caller of the native.
func (s *script) direct(v goja.Value) (direct, bool) {
	f, ok := s.callable(v)
	if !ok {
		return nil, false
	}
	if call, ok := v.Export().(direct); ok {
		return call, true
	}
	return func(c goja.FunctionCall) goja.Value {
		out, err := f(c.This, c.Arguments...)
		if err != nil {
			panic(err)
		}
		return out
	}, true
}

// builtIn is a method of a built-in object, as goja itself calls it.
func (s *script) builtIn(on *goja.Object, name string) direct { return on.Get(name).Export().(direct) }

// global is a built-in object, as it was before the script could touch it.
func (s *script) global(name string) *goja.Object {
	return s.rt.GlobalObject().Get(name).(*goja.Object)
}

// prototype is that of a built-in constructor.
func (s *script) prototype(name string) *goja.Object {
	return s.global(name).Get("prototype").(*goja.Object)
}

// fail throws an error into the script: kind is the name of a built-in one.
func (s *script) fail(ctor *goja.Object, message string) goja.Value {
	o, err := s.rt.New(ctor, s.rt.ToValue(message))
	if err != nil {
		panic(err)
	}
	panic(o)
}

func (s *script) typeError(message string) goja.Value { return s.fail(s.errors.typeError, message) }

func (s *script) rangeError(message string) goja.Value { return s.fail(s.errors.rangeError, message) }

func (s *script) syntaxError(message string) goja.Value { return s.fail(s.errors.syntaxError, message) }
