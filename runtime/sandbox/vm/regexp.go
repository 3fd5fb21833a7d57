package vm

import (
	"errors"
	"math"

	"github.com/dop251/goja"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/gate"
)

// coverRegExp puts a constructor in the place of goja's, over the same prototype, that
// refuses what the engine cannot run right, in words of the language. It is there for
// every script: a key that is computed leads from /a/ to it.
func (s *script) coverRegExp() {
	inner := s.global("RegExp")
	class := s.rt.ToValue(func(c goja.ConstructorCall) *goja.Object {
		given, isRegExp := c.Argument(0).(*goja.Object)
		isRegExp = isRegExp && given.ClassName() == "RegExp"
		if isRegExp && c.NewTarget == nil && goja.IsUndefined(c.Argument(1)) {
			return given
		}
		pattern, flags := textOf(c.Argument(0)), textOf(c.Argument(1))
		if isRegExp {
			pattern = given.Get("source").String()
			if goja.IsUndefined(c.Argument(1)) {
				flags = given.Get("flags").String()
			}
		}
		if bad := gate.BadRegex(pattern, flags); bad != "" {
			s.syntaxError(bad)
		}
		o, err := s.rt.New(inner, s.rt.ToValue(gate.WithEdges(pattern)), s.rt.ToValue(flags))
		var thrown *goja.Exception
		switch {
		case errors.As(err, &thrown):
			s.syntaxError("Invalid regular expression: /" + pattern + "/" + flags)
		case err != nil:
			panic(err)
		}
		if c.NewTarget != nil {
			s.must(o.SetPrototype(c.This.Prototype()))
		}
		return o
	}).(*goja.Object)
	s.over("RegExp", class, inner)
	s.must(class.DefineAccessorPropertySymbol(goja.SymSpecies, s.native("get [Symbol.species]", 0, func(c goja.FunctionCall) goja.Value {
		return c.This
	}), nil, goja.FLAG_TRUE, goja.FLAG_FALSE))
	s.coverSource()
	s.coverReplace()
}

// coverSource shows patterns as the script has written them.
func (s *script) coverSource() {
	proto := s.prototype("RegExp")
	own := func(inner direct) direct {
		return func(c goja.FunctionCall) goja.Value {
			v := inner(c)
			if text, ok := v.(goja.String); ok {
				if plain := gate.WithoutEdges(text.String()); plain != text.String() {
					return s.rt.ToValue(plain)
				}
			}
			return v
		}
	}
	s.method(proto, "toString", 0, own(s.builtIn(proto, "toString")))
	describe := s.builtIn(s.global("Object"), "getOwnPropertyDescriptor")
	d := describe(goja.FunctionCall{Arguments: []goja.Value{proto, s.rt.ToValue("source")}}).(*goja.Object)
	get := d.Get("get").Export().(direct)
	s.must(proto.DefineAccessorProperty("source", s.native("get source", 0, own(get)), nil, goja.FLAG_TRUE, goja.FLAG_FALSE))
}

// coverReplace has a pattern with the flag u, without g, replace what it finds first: goja
// replaces all where a text has other than ASCII, unless the pattern is a class of its own.
func (s *script) coverReplace() {
	proto := s.prototype("RegExp")
	inner, exec := proto.GetSymbol(goja.SymReplace).Export().(direct), proto.Get("exec")
	class, own := s.global("RegExp"), s.rt.CreateObject(proto)
	outer := s.native("[Symbol.replace]", 2, func(c goja.FunctionCall) goja.Value {
		o, ok := c.This.(*goja.Object)
		if !ok || o.ClassName() != "RegExp" || o.Prototype() != proto || !o.Get("exec").SameAs(exec) ||
			!o.Get("unicode").ToBoolean() || o.Get("global").ToBoolean() || o.Get("sticky").ToBoolean() {
			return inner(c)
		}
		copied, err := s.rt.New(class, o)
		if err != nil {
			panic(err)
		}
		s.must(copied.SetPrototype(own))
		return inner(goja.FunctionCall{This: copied, Arguments: c.Arguments})
	})
	s.must(proto.DefineDataPropertySymbol(goja.SymReplace, outer, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE))
}

// textOf is an argument as a text; one that is missing is none.
func textOf(v goja.Value) string {
	if goja.IsUndefined(v) {
		return ""
	}
	return v.String()
}

// boundTexts guards the methods that make a text as long as they are told: one that
// would not fit in memory is not begun. A character takes up to two bytes, and the text
// is built once more.
func (s *script) boundTexts() {
	proto := s.prototype("String")
	for _, name := range []string{"repeat", "padStart", "padEnd"} {
		inner, _ := s.callable(proto.Get(name))
		s.method(proto, name, int(proto.Get(name).(*goja.Object).Get("length").ToInteger()), func(c goja.FunctionCall) goja.Value {
			args := append([]goja.Value{}, c.Arguments...)
			if len(args) > 0 {
				args[0] = args[0].ToNumber() // once: it may be an object that says another number each time
				size := args[0].ToFloat()
				if text, ok := c.This.(goja.String); ok && name == "repeat" {
					size *= float64(text.Length())
				}
				if name == "repeat" && math.IsInf(size, 1) {
					size = 0 // goja throws, as the language has it
				}
				if s.limits.Heap > 0 && !math.IsNaN(size) && size*4 > float64(s.limits.Heap) {
					s.halt(frame.KindMemory, "The script wanted more memory than there is")
					return s.rangeError("This text is too long")
				}
			}
			v, err := inner(c.This, args...)
			if err != nil {
				panic(err)
			}
			return v
		})
	}
}
