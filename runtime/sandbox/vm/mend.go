package vm

import (
	"math"
	"strings"

	"github.com/dop251/goja"
)

// mend puts right what goja does otherwise than the language in plain code.
func (s *script) mend() {
	s.mendFrom()
	s.mendRadix()
	s.mendDigits()
	s.mendSort()
	s.mendMilliseconds()
	s.mendNumber()
	s.mendDate()
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

// mendDigits has negative numbers rounded as positive ones are: where that makes one digit
// more, goja writes it over the sign.
func (s *script) mendDigits() {
	proto := s.prototype("Number")
	value := s.builtIn(proto, "valueOf")
	for _, name := range []string{"toPrecision", "toExponential"} {
		inner := s.builtIn(proto, name)
		s.method(proto, name, 1, func(c goja.FunctionCall) goja.Value {
			n := value(goja.FunctionCall{This: c.This}).ToFloat()
			if !(n < 0) {
				return inner(c)
			}
			c.This = s.rt.ToValue(-n)
			return s.rt.ToValue("-" + inner(c).String())
		})
	}
}

// mendSort has lists of equals keep their order: goja takes a comparison that says -0 for
// one that says less, as (a, b) => -(a.n - b.n) does. That of [script.coverFaults] is
// mended there.
func (s *script) mendSort() {
	array, numbers := s.prototype("Array"), s.prototype("Uint8Array").Prototype()
	s.method(array, "toSorted", 1, s.stable(s.builtIn(array, "toSorted")))
	s.method(numbers, "sort", 1, s.stable(s.builtIn(numbers, "sort")))
	s.method(numbers, "toSorted", 1, s.stable(s.builtIn(numbers, "toSorted")))
}

// stable gives a sort a comparison that never says -0, nor NaN, which is 0 too.
func (s *script) stable(sort direct) direct {
	same := s.rt.ToValue(0)
	return func(c goja.FunctionCall) goja.Value {
		compare, ok := s.direct(c.Argument(0))
		if !ok {
			return sort(c)
		}
		return sort(goja.FunctionCall{This: c.This, Arguments: []goja.Value{s.native("", 2, func(c goja.FunctionCall) goja.Value {
			n := compare(c).ToNumber()
			if f := n.ToFloat(); f == 0 || math.IsNaN(f) {
				return same
			}
			return n
		})}})
	}
}

// mendMilliseconds keeps a date before 1970 in its second when its milliseconds are set;
// goja rounds to the one behind. Here is no other time than UTC.
func (s *script) mendMilliseconds() {
	proto := s.prototype("Date")
	get, set := s.builtIn(proto, "getTime"), s.builtIn(proto, "setTime")
	for _, name := range []string{"setMilliseconds", "setUTCMilliseconds"} {
		s.method(proto, name, 1, func(c goja.FunctionCall) goja.Value {
			now := get(goja.FunctionCall{This: c.This}).ToFloat()
			millis := math.Trunc(c.Argument(0).ToNumber().ToFloat())
			return set(goja.FunctionCall{This: c.This, Arguments: []goja.Value{s.rt.ToValue(math.Floor(now/1000)*1000 + millis)}})
		})
	}
}
