package vm

import (
	"github.com/dop251/goja"

	"github.com/kimbap-run/kimbap/runtime/sandbox/gate"
)

// iterators are what of the engine's own iterators is known before the script runs.
type iterators struct {
	sound map[*goja.Object]*goja.Object // what the iterators of built-in lists inherit next from, by the list's [Symbol.iterator]
	self  *goja.Object                  // that of iterators, which gives the iterator itself
	once  *goja.Object                  // the prototype of what stands for an iterator that has been asked for
	mark  *goja.Symbol                  // that iterator; no script can reach it
}

// coverIterators guards the places where goja takes for granted that an iterator has a
// next: it would end the script where the language has it throw a TypeError. The gate
// puts [gate.Each] there. A pattern inside another one, or for a parameter, has no place
// for it, and a fault there still ends the script.
func (s *script) coverIterators() {
	method := func(o *goja.Object) *goja.Object { return o.GetSymbol(goja.SymIterator).(*goja.Object) }
	it := &iterators{sound: map[*goja.Object]*goja.Object{}, mark: goja.NewSymbol("iterator"), once: s.rt.NewObject()}
	for _, name := range []string{"Array", "Map", "Set", "Uint8Array"} {
		list, err := s.rt.New(s.global(name))
		s.must(err)
		values := method(list)
		iterator := values.Export().(direct)(goja.FunctionCall{This: list}).(*goja.Object)
		it.sound[values], it.self = iterator.Prototype(), method(iterator)
	}
	s.must(it.once.SetSymbol(goja.SymIterator, s.native("", 0, func(c goja.FunctionCall) goja.Value {
		return c.This.(*goja.Object).GetSymbol(it.mark)
	})))
	s.each = func(c goja.FunctionCall) goja.Value {
		if o, ok := c.Argument(0).(*goja.Object); ok {
			return s.iterable(it, o)
		}
		if v := c.Argument(0); goja.IsUndefined(v) || goja.IsNull(v) {
			return s.typeError(v.String() + " is not iterable")
		}
		return c.Argument(0)
	}
	s.must(s.rt.GlobalObject().DefineDataProperty(gate.Each, s.native(gate.Each, 1, s.each), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE))
	s.coverEntries()
}

// coverEntries gives Object.fromEntries pairs that have both parts: goja takes that for
// granted too.
func (s *script) coverEntries() {
	object := s.global("Object")
	inner := s.builtIn(object, "fromEntries")
	part := func(pair *goja.Object, name string) any {
		if v := pair.Get(name); v != nil {
			return v
		}
		return goja.Undefined()
	}
	s.method(object, "fromEntries", 1, func(c goja.FunctionCall) goja.Value {
		var pairs []any
		s.rt.ForOf(s.each(c), func(v goja.Value) bool {
			pair, ok := v.(*goja.Object)
			if !ok {
				s.typeError("An entry is not an object")
			}
			pairs = append(pairs, s.rt.NewArray(part(pair, "0"), part(pair, "1")))
			return true
		})
		return inner(goja.FunctionCall{This: c.This, Arguments: []goja.Value{s.rt.NewArray(pairs...)}})
	})
}

// iterable is an object to iterate over in the place of another: over the same iterator,
// or over one that throws when it is asked for its next value.
func (s *script) iterable(it *iterators, o *goja.Object) goja.Value {
	found := o.GetSymbol(goja.SymIterator)
	method, ok := found.(*goja.Object)
	if !ok {
		return o // goja says itself what is not iterable
	}
	if above := it.sound[method]; above != nil {
		if _, ok := goja.AssertFunction(above.Get("next")); ok {
			return o
		}
	}
	iterator := o
	if method != it.self {
		call, ok := s.callable(method)
		if !ok {
			return o
		}
		made, err := call(o)
		if err != nil {
			panic(err)
		}
		if iterator, ok = made.(*goja.Object); !ok {
			return s.typeError("The result of the Symbol.iterator method is not an object")
		}
	}
	if _, ok := goja.AssertFunction(iterator.Get("next")); !ok {
		iterator = s.rt.NewObject()
		s.method(iterator, "next", 0, func(goja.FunctionCall) goja.Value {
			return s.typeError("The iterator has no function next")
		})
	}
	stand := s.rt.CreateObject(it.once)
	s.must(stand.SetSymbol(it.mark, iterator))
	return stand
}
