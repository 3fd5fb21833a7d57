package vm

import (
	"errors"

	"github.com/dop251/goja"
)

// coverPromises puts into words of ours the errors that promises carry, wherever a
// script can be told of one: by a function given to then, by what its own subclass is
// told through the functions it hands to an executor, and by the constructors that all,
// allSettled, any and race are called on.
func (s *script) coverPromises() {
	class, proto := s.global("Promise"), s.prototype("Promise")
	s.then = s.builtIn(proto, "then")
	thrower := s.native("", 1, func(c goja.FunctionCall) goja.Value {
		s.see(c.Argument(0))
		panic(c.Argument(0))
	})
	s.method(proto, "then", 2, func(c goja.FunctionCall) goja.Value {
		failed := s.seeing(c.Argument(1))
		if _, ok := s.callable(failed); !ok {
			failed = thrower // the promise that comes of it may be of a script's own class
		}
		return s.then(goja.FunctionCall{This: c.This, Arguments: []goja.Value{s.telling(c.Argument(0), nil), failed}})
	})
	for _, name := range []string{"all", "allSettled", "any", "race"} {
		inner := s.builtIn(class, name)
		s.method(class, name, 1, func(c goja.FunctionCall) goja.Value {
			this, seen := c.This, s.see
			if name == "any" {
				seen = s.seeAll
			}
			if o, ok := this.(*goja.Object); ok && (o != class || name == "any") {
				this = s.standIn(o, seen)
			}
			return inner(goja.FunctionCall{This: this, Arguments: c.Arguments})
		})
	}
	promise, resolve, _ := s.rt.NewPromise()
	s.must(resolve(goja.Undefined()))
	s.settled = s.rt.ToValue(promise).(*goja.Object)
	s.hidden(s.settled, "constructor", goja.Undefined()) // whatever a script makes of Promise
}

// seeing is a function of a script that is told why a promise was rejected.
func (s *script) seeing(v goja.Value) goja.Value { return s.telling(v, s.see) }

// telling is a function of a script that a promise calls: with a reason, which seen puts
// into words, or where that is nil with a value. What it throws is the reason of another
// promise.
func (s *script) telling(v goja.Value, seen func(goja.Value)) goja.Value {
	told, ok := s.callable(v)
	if !ok {
		return v
	}
	return s.native("", 1, func(c goja.FunctionCall) goja.Value {
		if seen != nil {
			seen(c.Argument(0))
		}
		out, err := told(goja.Undefined(), c.Arguments...)
		var thrown *goja.Exception
		if errors.As(err, &thrown) {
			s.see(thrown.Value())
		}
		if err != nil {
			panic(err)
		}
		return out
	})
}

// seeAll is [script.see] for what Promise.any rejects with: goja gives it no message.
func (s *script) seeAll(v goja.Value) {
	if o, ok := v.(*goja.Object); ok && o.Prototype() == s.errors.all && property(o, "message") == "" {
		s.hidden(o, "message", s.rt.ToValue("All promises were rejected"))
	}
	s.see(v)
}

// standIn is a constructor in the place of a script's own, for goja to make a promise
// with: it makes what the script's makes, and rejects it with what seen has put into
// words of ours.
func (s *script) standIn(class *goja.Object, seen func(goja.Value)) goja.Value {
	if _, ok := goja.AssertConstructor(class); !ok {
		return class
	}
	stand := s.rt.ToValue(func(c goja.ConstructorCall) *goja.Object {
		o, err := s.rt.New(class, s.executor(c.Argument(0), seen))
		if err != nil {
			panic(err)
		}
		return o
	}).(*goja.Object)
	s.must(stand.DefineAccessorProperty("resolve", s.native("", 0, func(goja.FunctionCall) goja.Value {
		v := class.Get("resolve")
		resolve, ok := s.callable(v)
		if !ok {
			return v
		}
		return s.native("", 1, func(c goja.FunctionCall) goja.Value {
			out, err := resolve(class, c.Arguments...)
			if err != nil {
				panic(err)
			}
			return out
		})
	}), nil, goja.FLAG_FALSE, goja.FLAG_FALSE))
	return stand
}

// executor begins a promise of a script's own class.
func (s *script) executor(v goja.Value, seen func(goja.Value)) goja.Value {
	begin, ok := s.callable(v)
	if !ok {
		return v
	}
	return s.native("", 2, func(c goja.FunctionCall) goja.Value {
		out, err := begin(goja.Undefined(), c.Argument(0), s.telling(c.Argument(1), seen))
		if err != nil {
			panic(err)
		}
		return out
	})
}
