package vm

import (
	_ "embed" // of the scripts below
	"math"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/gate"
)

// The scripts that put in what goja lacks. Each is a function that takes
// define(object, name, value), the global object, and some help.
var (
	//go:embed polyfill/clone.js
	cloneScript string
	//go:embed polyfill/collection.js
	collectionScript string
	//go:embed polyfill/guard.js
	guardScript string
	//go:embed polyfill/locale.js
	localeScript string
	//go:embed polyfill/text.js
	textScript string
	//go:embed polyfill/url.js
	urlScript string
)

// fill runs the scripts that this program can have a use for: a program that does not
// have a word cannot ask for it by name, and pays nothing.
func (s *script) fill() {
	for _, p := range []struct {
		script string
		words  []string
	}{
		{guardScript, []string{"RegExp", "repeat", "padStart", "padEnd"}},
		{collectionScript, []string{"groupBy", "withResolvers", "fromAsync", "asyncIterator", "Promise.try"}},
		{cloneScript, []string{"structuredClone"}},
		{textScript, []string{"TextEncoder", "TextDecoder", "btoa", "atob"}},
		{localeScript, []string{"toLocale", "localeCompare"}},
		{urlScript, []string{"URL"}},
	} {
		for _, word := range p.words {
			if s.program.Mentions(word) {
				s.install(p.script)
				break
			}
		}
	}
	if s.program.Uses("performance") {
		s.makePerformance()
	}
}

// install runs one script.
func (s *script) install(source string) {
	tree, err := goja.Parse("kimbap", source, parser.WithDisableSourceMaps)
	s.must(err)
	code, err := goja.CompileAST(tree, true)
	s.must(err)
	value, err := s.rt.RunProgram(code)
	s.must(err)
	f, _ := goja.AssertFunction(value)
	_, err = f(goja.Undefined(), s.native("define", 3, s.define), s.rt.GlobalObject(), s.help())
	s.must(err)
}

func (s *script) define(c goja.FunctionCall) goja.Value {
	s.hidden(c.Argument(0).(*goja.Object), c.Argument(1).String(), c.Argument(2))
	return goja.Undefined()
}

// help is what the scripts need of Go.
func (s *script) help() goja.Value {
	help := s.rt.NewObject()
	s.method(help, "badRegex", 2, func(c goja.FunctionCall) goja.Value {
		return s.rt.ToValue(gate.BadRegex(c.Argument(0).String(), c.Argument(1).String()))
	})
	s.method(help, "room", 1, func(c goja.FunctionCall) goja.Value {
		// A character takes up to two bytes, and the text is built once more.
		if n := c.Argument(0).ToFloat(); s.limits.Heap > 0 && !math.IsNaN(n) && n*4 > float64(s.limits.Heap) {
			s.halt(frame.KindMemory, "The script wanted more memory than there is")
			return s.rangeError("This text is too long")
		}
		return goja.Undefined()
	})
	return help
}

// makePerformance makes performance.now, by the clock of the script.
func (s *script) makePerformance() {
	o := s.rt.NewObject()
	from := s.now
	s.method(o, "now", 0, func(goja.FunctionCall) goja.Value { return s.rt.ToValue(s.now - from) })
	s.hidden(s.rt.GlobalObject(), "performance", o)
}
