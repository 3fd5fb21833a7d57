package vm

import (
	"fmt"

	"github.com/dop251/goja"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/gate"
)

// makeToolError makes the class of errors that calls of tools throw. A script can ask
// whether an error is one, but make none.
func (s *script) makeToolError() {
	proto := s.rt.CreateObject(s.errors.plain.Get("prototype").(*goja.Object))
	s.hidden(proto, "name", s.rt.ToValue("ToolError"))
	s.errors.tool = proto
	class := s.method(s.rt.GlobalObject(), "ToolError", 0, func(goja.FunctionCall) goja.Value {
		return s.typeError("Only a call of a tool makes a ToolError")
	})
	s.must(class.DefineDataProperty("prototype", proto, goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE))
	s.hidden(proto, "constructor", class)
}

// toolError rebuilds, from its words, the error of a call that was made at a place.
func (s *script) toolError(e frame.ToolError, at place) *goja.Object {
	o, err := s.rt.New(s.errors.plain, s.rt.ToValue(e.Message))
	s.must(err)
	s.must(o.SetPrototype(s.errors.tool))
	for _, f := range []field{
		{"name", "ToolError"}, {"message", e.Message}, {"tool", e.Tool}, {"code", e.Code}, {"status", e.Status}, {"retryable", e.Retryable},
	} {
		if f.value != 0 { // no status
			s.must(o.DefineDataProperty(f.name, s.rt.ToValue(f.value), goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_TRUE))
		}
	}
	stack := "ToolError: " + e.Message
	if at.line > 0 {
		stack += fmt.Sprintf("\n%s%s (%d:%d)", toldRow, gate.FileName, at.line, at.column)
	}
	s.hidden(o, "stack", s.rt.ToValue(stack))
	return o
}

// field is one property of a ToolError. All are enumerable, so that its JSON says what it is.
type field struct {
	name  string
	value any
}
