package vm

import (
	"slices"
	"strconv"

	"github.com/dop251/goja"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// Bounds of timers: how many a script may set, and the longest delay in milliseconds.
const (
	maxAlarms = 10_000
	maxDelay  = 1<<31 - 1
)

// timer is one that was set.
type timer struct {
	id      int
	f       goja.Callable
	args    []goja.Value
	delay   int64 // milliseconds, at least one, as in Node.js: those of no delay keep their turn
	repeats bool
	set     bool // the host has it
	cleared bool
}

// makeTimers makes setTimeout and its kin. A timer is a call that the host answers.
func (s *script) makeTimers() {
	world := s.rt.GlobalObject()
	for name, repeats := range map[string]bool{"setTimeout": false, "setInterval": true} {
		s.method(world, name, 2, func(c goja.FunctionCall) goja.Value { return s.setTimer(name, c, repeats) })
	}
	for _, name := range []string{"clearTimeout", "clearInterval"} {
		s.method(world, name, 1, func(c goja.FunctionCall) goja.Value {
			if n, ok := c.Argument(0).Export().(int64); ok {
				if t := s.timers[int(n)]; t != nil {
					s.clear(t)
				}
			}
			return goja.Undefined()
		})
	}
	s.method(world, "queueMicrotask", 1, s.microtask)
}

func (s *script) setTimer(name string, c goja.FunctionCall, repeats bool) goja.Value {
	f, ok := goja.AssertFunction(c.Argument(0))
	if !ok {
		return s.typeError(name + " takes a function")
	}
	t := &timer{f: f, delay: max(1, min(c.Argument(1).ToInteger(), maxDelay)), repeats: repeats}
	if len(c.Arguments) > 2 {
		t.args = slices.Clone(c.Arguments[2:]) // they lie on goja's stack, which has other values by then
	}
	t.id = s.arm(t)
	s.timers[t.id] = t
	return s.rt.ToValue(t.id)
}

// arm asks the host to answer after the timer's delay.
func (s *script) arm(t *timer) int {
	if s.alarms++; s.alarms > maxAlarms {
		s.halt(frame.KindCalls, "The script set too many timers")
		return s.seq + 1
	}
	t.set = true
	s.ticking++
	return s.begin(&call{timer: t}, frame.CallTimer, "", strconv.FormatInt(t.delay, 10))
}

// clear makes a timer one that the script does not wait for. The host answers it all the
// same, if it has it.
func (s *script) clear(t *timer) {
	t.cleared = true
	delete(s.timers, t.id)
	if t.set {
		s.ticking--
	}
}

// ring runs a timer whose time has come.
func (s *script) ring(t *timer) error {
	if t.cleared {
		return nil
	}
	t.set = false
	s.ticking--
	if !t.repeats {
		delete(s.timers, t.id)
	}
	_, err := t.f(goja.Undefined(), t.args...)
	if err == nil && t.repeats && !t.cleared {
		s.arm(t)
	}
	return err
}

// microtask is queueMicrotask: what the function throws is told of as a rejection that
// nothing handled, in a warning, and does not end the script.
func (s *script) microtask(c goja.FunctionCall) goja.Value {
	f, ok := s.callable(c.Argument(0))
	if !ok {
		return s.typeError("queueMicrotask takes a function")
	}
	s.then(goja.FunctionCall{This: s.settled, Arguments: []goja.Value{s.native("", 0, func(goja.FunctionCall) goja.Value {
		if _, err := f(goja.Undefined()); err != nil {
			panic(err)
		}
		return goja.Undefined()
	})}})
	return goja.Undefined()
}
