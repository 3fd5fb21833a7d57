package vm

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/dop251/goja"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// Bounds of a path of tools. No action has a longer one.
const (
	maxSegments = 8
	maxSegment  = 128 // bytes
)

// hint is what a script reads that looks for tools in a way that cannot work.
const hint = "tools cannot be listed or changed: find a tool with await tools.search({query}), and call it as tools.service.action({…})"

// toolName is the path that a value is, if it is one.
func (s *script) toolName(o *goja.Object) (string, bool) {
	if o.ExportType() != reflect.TypeFor[goja.Proxy]() {
		return "", false
	}
	p, ok := o.Export().(goja.Proxy)
	if !ok || p.Target() == nil {
		return "", false
	}
	name := p.Target().GetSymbol(s.mark)
	if name == nil {
		return "", false
	}
	return name.String(), true
}

// makeTools makes the one global that leads out.
func (s *script) makeTools() {
	root := s.branch(nil)
	world := s.rt.GlobalObject()
	s.must(world.DefineDataProperty("tools", root, goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE))
}

// branch is tools, or what a path of it leads to: any key gives a longer path, a call
// makes the call.
func (s *script) branch(path []string) goja.Value {
	target := s.rt.NewObject()
	name := strings.Join(append([]string{"tools"}, path...), ".")
	if len(path) > 0 {
		target = s.native(path[len(path)-1], 1, func(goja.FunctionCall) goja.Value { return goja.Undefined() })
	}
	s.must(target.SetSymbol(s.mark, name))
	no := func() bool { s.typeError(hint); return false }
	return s.rt.ToValue(s.rt.NewProxy(target, &goja.ProxyTrapConfig{
		Get: func(_ *goja.Object, key string, _ goja.Value) goja.Value {
			if key == "toString" {
				return s.native(key, 0, func(goja.FunctionCall) goja.Value { return s.rt.ToValue("[" + name + "]") })
			}
			return s.step(path, key)
		},
		GetSym: func(*goja.Object, *goja.Symbol, goja.Value) goja.Value {
			return goja.Undefined()
		},
		Apply: func(_ *goja.Object, _ goja.Value, args []goja.Value) goja.Value { return s.invoke(path, args) },
		Construct: func(*goja.Object, []goja.Value, *goja.Object) *goja.Object {
			s.typeError("A tool is called without new")
			return nil
		},
		GetPrototypeOf:    func(*goja.Object) *goja.Object { return nil },
		IsExtensible:      func(*goja.Object) bool { return true },
		Has:               func(*goja.Object, string) bool { return no() },
		HasSym:            func(*goja.Object, *goja.Symbol) bool { return false },
		Set:               func(*goja.Object, string, goja.Value, goja.Value) bool { return no() },
		SetSym:            func(*goja.Object, *goja.Symbol, goja.Value, goja.Value) bool { return no() },
		DeleteProperty:    func(*goja.Object, string) bool { return no() },
		DeletePropertySym: func(*goja.Object, *goja.Symbol) bool { return no() },
		DefineProperty:    func(*goja.Object, string, goja.PropertyDescriptor) bool { return no() },
		DefinePropertySym: func(*goja.Object, *goja.Symbol, goja.PropertyDescriptor) bool { return no() },
		SetPrototypeOf:    func(*goja.Object, *goja.Object) bool { return no() },
		PreventExtensions: func(*goja.Object) bool { return no() },
		OwnKeys:           func(*goja.Object) *goja.Object { no(); return nil },
		GetOwnPropertyDescriptor: func(*goja.Object, string) goja.PropertyDescriptor {
			no()
			return goja.PropertyDescriptor{}
		},
		GetOwnPropertyDescriptorSym: func(*goja.Object, *goja.Symbol) goja.PropertyDescriptor {
			no()
			return goja.PropertyDescriptor{}
		},
	}))
}

// step is what a key of a path leads to. The names that the language itself asks for
// are never part of a path.
func (s *script) step(path []string, key string) goja.Value {
	switch key {
	case "then", "toJSON", "constructor", "prototype", "valueOf", "toLocaleString", "hasOwnProperty",
		"isPrototypeOf", "propertyIsEnumerable", "__proto__", "nodeType", "$$typeof":
		return goja.Undefined()
	}
	if !isSegment(key) {
		return s.typeError("No tool has such a name")
	}
	if len(path) >= maxSegments {
		return s.typeError("No tool has so long a path: find one with await tools.search({query})")
	}
	return s.branch(append(path[:len(path):len(path)], key))
}

// isSegment reports whether a key can be part of an action's path.
func isSegment(key string) bool {
	if key == "" || len(key) > maxSegment {
		return false
	}
	for i := range len(key) {
		c := key[i]
		if c != '_' && c != '-' && c != '$' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return true
}

// invoke makes a call. Its arguments are written once, here: what policy and a
// human see is what is sent, whatever the script does to the object later.
func (s *script) invoke(path []string, args []goja.Value) goja.Value {
	name := "tools." + strings.Join(path, ".")
	kind := frame.CallTool
	switch name {
	case "tools.search":
		kind = frame.CallSearch
	case "tools.describe.tool":
		kind = frame.CallDescribe
	default:
		if len(path) < 2 {
			return s.typeError(name + " is no tool: a tool is called as tools.service.action({…}); find one with await tools.search({query})")
		}
	}
	text := s.arguments(name, args)
	if s.calls++; s.limits.Calls > 0 && s.calls > s.limits.Calls {
		s.halt(frame.KindCalls, "The script made too many calls of tools")
		return goja.Undefined()
	}
	if s.stopped != nil {
		return goja.Undefined()
	}
	promise, resolve, reject := s.rt.NewPromise()
	s.begin(&call{resolve: resolve, reject: reject}, kind, strings.Join(path, "."), text)
	return s.rt.ToValue(promise)
}

// arguments is the JSON of a call's one argument, an object.
func (s *script) arguments(name string, args []goja.Value) string {
	if len(args) == 0 || goja.IsUndefined(args[0]) {
		return "{}"
	}
	w := s.writer(s.limits.Argument)
	text, over := w.write(args[0])
	switch over {
	case tooLong:
		s.halt(frame.KindCalls, "The arguments of "+name+" are too large")
	case tooDeep:
		s.halt(frame.KindStack, "The arguments of "+name+" nest too deep")
	default:
		if !strings.HasPrefix(text, "{") {
			s.typeError(name + " takes one argument, an object")
		}
		if w.hollow != "" {
			s.typeError(fmt.Sprintf("%s was given %s, which JSON has as {}: %s", name, w.hollow, saved[w.hollow]))
		}
	}
	return text
}
