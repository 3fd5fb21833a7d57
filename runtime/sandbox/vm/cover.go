package vm

import (
	"math/big"

	"github.com/dop251/goja"
)

// coverArguments puts in the place of a constructor of goja's that also is a function one
// that is that constructor in all, but reads its arguments otherwise.
func (s *script) coverArguments(name string, read func([]goja.Value) []goja.Value) {
	inner := s.global(name)
	call, ok := inner.Export().(direct)
	construct, ok2 := goja.AssertConstructor(inner)
	if !ok || !ok2 {
		panic(name + " is no constructor")
	}
	class := s.rt.ToValue(s.rt.NewProxy(inner, &goja.ProxyTrapConfig{
		Apply: func(_ *goja.Object, this goja.Value, args []goja.Value) goja.Value {
			return call(goja.FunctionCall{This: this, Arguments: read(args)})
		},
		Construct: func(_ *goja.Object, args []goja.Value, target *goja.Object) *goja.Object {
			o, err := construct(target, read(args)...)
			if err != nil {
				panic(err)
			}
			return o
		},
	})).(*goja.Object)
	has := inner.GetSymbol(goja.SymHasInstance).(*goja.Object).Export().(direct)
	instance := s.native("[Symbol.hasInstance]", 1, func(c goja.FunctionCall) goja.Value {
		if c.This == class {
			c.This = inner // goja asks no proxy
		}
		return has(c)
	})
	s.must(inner.DefineDataPropertySymbol(goja.SymHasInstance, instance, goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE))
	s.hidden(inner.Get("prototype").(*goja.Object), "constructor", class)
	s.hidden(s.rt.GlobalObject(), name, class)
}

// mendNumber has Number take a bigint of any size: goja keeps its last 64 bits.
func (s *script) mendNumber() {
	s.coverArguments("Number", func(args []goja.Value) []goja.Value {
		if len(args) == 0 {
			return args
		}
		if _, isObject := args[0].(*goja.Object); isObject {
			return args
		}
		n, ok := args[0].Export().(*big.Int)
		if !ok {
			return args
		}
		f, _ := new(big.Float).SetInt(n).Float64()
		return []goja.Value{s.rt.ToValue(f)}
	})
}
