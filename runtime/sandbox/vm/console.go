package vm

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/dop251/goja"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// maxShown is how deep a message shows Maps and Sets inside each other.
const maxShown = 10

// makeConsole makes console. Its messages are counted: past the limit there is one
// that says so, and no more.
func (s *script) makeConsole() {
	console := s.rt.NewObject()
	for _, name := range []string{"debug", "info", "log", "warn", "error", "trace", "dir", "dirxml", "table"} {
		level := name
		switch name {
		case "trace":
			level = "debug"
		case "dir", "dirxml", "table":
			level = "log"
		}
		s.method(console, name, 0, func(c goja.FunctionCall) goja.Value {
			s.print(level, c.Arguments)
			return goja.Undefined()
		})
	}
	s.method(console, "assert", 0, func(c goja.FunctionCall) goja.Value {
		if !c.Argument(0).ToBoolean() {
			s.print("error", append([]goja.Value{s.rt.ToValue("Assertion failed")}, c.Arguments[min(1, len(c.Arguments)):]...))
		}
		return goja.Undefined()
	})
	for _, name := range []string{"group", "groupCollapsed", "groupEnd", "time", "timeLog", "timeEnd", "count", "countReset"} {
		s.method(console, name, 0, func(goja.FunctionCall) goja.Value { return goja.Undefined() })
	}
	s.hidden(s.rt.GlobalObject(), "console", console)
}

// print logs values, as far as there is room.
func (s *script) print(level string, values []goja.Value) {
	room := s.limits.Logs - s.logged
	if s.cut || room <= 0 {
		s.drop()
		return
	}
	var b strings.Builder
	for i, v := range values {
		if b.Len() > room {
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(s.show(v, room))
	}
	message := b.String()
	s.logged += len(level) + len(message)
	if len(message) <= room {
		s.host.Log(frame.Log{Level: level, Message: message})
		return
	}
	s.host.Log(frame.Log{Level: level, Message: clip(message, room)})
	s.drop()
}

// drop says once that messages are missing.
func (s *script) drop() {
	if !s.cut {
		s.cut = true
		s.host.Log(frame.Log{Level: "warn", Message: fmt.Sprintf("[messages beyond %d bytes were dropped]", s.limits.Logs)})
	}
}

// show is a value as a message has it.
func (s *script) show(v goja.Value, room int) string {
	o, ok := v.(*goja.Object)
	if !ok {
		if text, isText := v.(goja.String); isText && text.Length() > room {
			return clip(text.Substring(0, room).String(), room) + "…"
		}
		if symbol, isSymbol := v.(*goja.Symbol); isSymbol {
			return "Symbol(" + symbol.String() + ")"
		}
		return v.String()
	}
	if name, ok := s.toolName(o); ok {
		return "[" + name + "]"
	}
	switch o.ClassName() {
	case "Error":
		return s.showError(o)
	case "Function":
		return "[function]"
	}
	if kind := s.collection(o); kind != "" {
		return s.showList(o, kind, room)
	}
	w := s.writer(room)
	w.shows = true
	text, why, err := w.tryWrite(o)
	var thrown *goja.Exception
	switch {
	case errors.As(err, &thrown):
		return "[object that cannot be shown]" // a message is no reason to fail
	case err != nil:
		panic(err)
	case why != written:
		return "[too large to show]"
	}
	return text
}

func (s *script) showError(o *goja.Object) string {
	name, message := property(o, "name"), property(o, "message")
	text := header(name, clean(message))
	if _, _, trace := s.trace(property(o, "stack")); trace != "" {
		text += "\n" + trace
	}
	return text
}

// collection is Map or Set for an object that is one. goja calls both plain objects, but
// knows what they would be in Go.
func (s *script) collection(o *goja.Object) string {
	kind := ""
	switch t := o.ExportType(); {
	case t == reflect.TypeFor[[][2]any]():
		kind = "Map"
	case t == reflect.TypeFor[[]any]() && o.ClassName() != "Array":
		kind = "Set"
	}
	if s.json.forEach[kind] == nil {
		return ""
	}
	return kind
}

// showList is a Map or a Set.
func (s *script) showList(o *goja.Object, kind string, room int) string {
	switch {
	case slices.Contains(s.showing, o):
		return "[Circular]"
	case len(s.showing) >= maxShown:
		return "[" + kind + "]"
	}
	s.showing = append(s.showing, o)
	defer func() { s.showing = s.showing[:len(s.showing)-1] }()
	var parts []string
	size := 0
	_, err := s.json.forEach[kind](o, s.native("", 2, func(c goja.FunctionCall) goja.Value {
		if size > room {
			return goja.Undefined()
		}
		part := s.show(c.Argument(0), room-size)
		if kind == "Map" {
			part = s.show(c.Argument(1), room-size) + " => " + part
		}
		size += len(part) + 2
		parts = append(parts, part)
		return goja.Undefined()
	}))
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%s(%d) {%s}", kind, len(parts), strings.Join(parts, ", "))
}

// track notes the promises that were rejected and that nobody looks at.
func (s *script) track(p *goja.Promise, what goja.PromiseRejectionOperation) {
	if what == goja.PromiseRejectionReject {
		if len(s.lost) < 100 {
			s.lost = append(s.lost, p)
		}
		return
	}
	for i, lost := range s.lost {
		if lost == p {
			s.lost = append(s.lost[:i], s.lost[i+1:]...)
			return
		}
	}
}

// warnings says, at the end of a script that went well, what it did not look at.
func (s *script) warnings() {
	if n := len(s.queue); n > 0 { // of those that were made, the host says it
		s.warn(fmt.Sprintf("Not awaited, and never made since others were under way: %d calls of tools", n))
	}
	for _, p := range s.lost[:min(len(s.lost), 10)] {
		f := s.thrown(p.Result())
		s.warn("A promise was rejected and nothing handled it: " + f.Name + ": " + f.Message)
	}
}

func (s *script) warn(message string) {
	if !s.cut {
		s.host.Log(frame.Log{Level: "warn", Message: clip(message, 1000)})
	}
}
