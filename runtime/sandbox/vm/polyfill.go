package vm

import (
	_ "embed" // of the scripts below
	"fmt"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"
)

// The scripts that put in what goja lacks. Each is a function that takes
// define(object, name, value), the global object, and each(object), through which it
// iterates over what a script gave it.
var (
	//go:embed polyfill/clone.js
	cloneScript string
	//go:embed polyfill/collection.js
	collectionScript string
	//go:embed polyfill/iterator.js
	iteratorScript string
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
		{collectionScript, []string{"groupBy", "withResolvers", "fromAsync", "asyncIterator", "Promise.try", "dispose", "asyncDispose"}},
		{iteratorScript, []string{"Iterator", "yield", "matchAll", ".values()", ".keys()", ".entries()", "Symbol.iterator"}},
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
	if s.program.Uses("crypto") {
		s.makeCrypto()
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
	_, err = f(goja.Undefined(), s.native("define", 3, s.define), s.rt.GlobalObject(), s.native("each", 1, s.each))
	s.must(err)
}

func (s *script) define(c goja.FunctionCall) goja.Value {
	s.hidden(c.Argument(0).(*goja.Object), c.Argument(1).String(), c.Argument(2))
	return goja.Undefined()
}

// makePerformance makes performance.now, by the clock of the script.
func (s *script) makePerformance() {
	o := s.rt.NewObject()
	from := s.now
	s.method(o, "now", 0, func(goja.FunctionCall) goja.Value { return s.rt.ToValue(s.now - from) })
	s.hidden(s.rt.GlobalObject(), "performance", o)
}

// makeCrypto makes crypto.randomUUID (RFC 9562, version 4), of the random numbers of the
// script: run again it gives the same, and it is no secret.
func (s *script) makeCrypto() {
	random := s.builtIn(s.global("Math"), "random")
	o := s.rt.NewObject()
	s.method(o, "randomUUID", 0, func(goja.FunctionCall) goja.Value {
		var b [16]byte
		for i := range b {
			b[i] = byte(random(goja.FunctionCall{}).ToFloat() * 256)
		}
		b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
		return s.rt.ToValue(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
	})
	s.hidden(s.rt.GlobalObject(), "crypto", o)
}
