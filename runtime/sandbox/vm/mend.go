package vm

import (
	"strings"

	"github.com/dop251/goja"
)

// mend puts right what goja does otherwise than the language in plain code.
func (s *script) mend() {
	s.mendFrom()
	s.mendRadix()
}

// mendFrom lets the lists of numbers take a text, as in
// Uint8Array.from(atob(text), c => c.charCodeAt(0)): goja wants an object.
func (s *script) mendFrom() {
	class := s.global("Uint8Array").Prototype()
	inner := s.builtIn(class, "from")
	s.method(class, "from", 1, func(c goja.FunctionCall) goja.Value {
		if _, isText := c.Argument(0).(goja.String); isText {
			args := append([]goja.Value{}, c.Arguments...)
			args[0] = args[0].ToObject(s.rt)
			c.Arguments = args
		}
		return inner(c)
	})
}

// mendRadix gives numbers between -1 and 0 their sign in another base than ten.
func (s *script) mendRadix() {
	proto := s.prototype("Number")
	inner := s.builtIn(proto, "toString")
	s.method(proto, "toString", 1, func(c goja.FunctionCall) goja.Value {
		out := inner(c)
		if len(c.Arguments) == 0 {
			return out
		}
		plain := inner(goja.FunctionCall{This: c.This}).String()
		if text := out.String(); strings.HasPrefix(plain, "-") && !strings.HasPrefix(text, "-") {
			return s.rt.ToValue("-" + text)
		}
		return out
	})
}
