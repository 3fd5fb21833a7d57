package vm_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/gate"
)

// A script says that it waits after each timer. With a list of all others in it, ten
// thousand timers took the worker and its host six seconds.
func TestThatItWaitsForTimersIsSaidInAFewWords(t *testing.T) {
	p, _ := gate.Check(`let n = 0; await new Promise(r => { for (let i = 0; i < 1000; i++) setTimeout(() => ++n < 1000 || r(), i) }); return n`)
	next := 0
	h := newHeld(nil)
	h.pick = func([]int) frame.Reply { next++; return frame.Reply{Seq: next, Now: start} }
	done := runOn(t, p, h, limits())
	if done.Value != "1000" || len(h.idle) != 1000 {
		t.Fatalf("ended with %+v after it waited %d times", done, len(h.idle))
	}
	for i, idle := range h.idle {
		if len(idle.Waiting) != 0 || !idle.Timers || idle.Heard != i {
			t.Fatalf("after %d replies it said %+v", i, idle)
		}
	}
}

func TestWhatAScriptWaitsForIsNoTimerThatWasCleared(t *testing.T) {
	for name, c := range map[string]struct {
		code, value string
		kind        frame.Kind
	}{
		"cleared": {`clearTimeout(setTimeout(() => {}, 9)); await new Promise(() => {})`, "", frame.KindDeadlock},
		"cleared twice": {`const a = setTimeout(() => {}, 9); clearTimeout(a); clearTimeout(a);
			await new Promise(r => setTimeout(r, 9)); return 1`, "1", ""},
		"cleared after it rang": {`let a; await new Promise(r => { a = setTimeout(r, 1) }); clearTimeout(a);
			await new Promise(r => setTimeout(r, 9)); return 1`, "1", ""},
		"cleared by itself": {`const a = setInterval(() => clearInterval(a), 1); await new Promise(() => {})`, "", frame.KindDeadlock},
		"cleared between two": {`let n = 0; const a = setInterval(() => n++, 1); setTimeout(() => setTimeout(() => clearInterval(a), 0), 0);
			await new Promise(() => {})`, "", frame.KindDeadlock},
		"a one that repeats, cleared after a while": {`let n = 0; return await new Promise(r => { const a = setInterval(() => ++n < 5 || (clearInterval(a), r(n)), 1) })`, "5", ""},
		"beside a call":             {`clearTimeout(setTimeout(() => {}, 9)); return await tools.demo.echo({i: 7})`, `{"i":7}`, ""},
		"in a callback that throws": {`setTimeout(() => { throw new Error('no') }, 1); await new Promise(() => {})`, "", frame.KindException},
	} {
		p, refusals := gate.Check(c.code)
		if p == nil {
			t.Fatal(name, refusals)
		}
		done := runOn(t, p, newHost(), limits())
		kind := frame.Kind("")
		if done.Failure != nil {
			kind = done.Failure.Kind
		}
		if done.Value != c.value || kind != c.kind {
			t.Errorf("%s: %+v %+v", name, done, done.Failure)
		}
	}
	h := newHeld(func(had []int) frame.Reply { return frame.Reply{} })
	h.pick = func(had []int) frame.Reply {
		if len(h.idle) > 1 {
			return frame.Reply{Seq: had[0], Now: start, Value: "1"}
		}
		return frame.Reply{Seq: had[len(had)-1], Now: start}
	}
	p, _ := gate.Check(`const a = setTimeout(() => {}, 99); const call = tools.demo.echo({}); setTimeout(() => clearTimeout(a), 0); return await call`)
	done := runOn(t, p, h, limits())
	said := []string{}
	for _, i := range h.idle {
		said = append(said, strings.Repeat("call ", len(i.Waiting))+map[bool]string{true: "timer", false: ""}[i.Timers])
	}
	if done.Value != "1" || strings.Join(said, ", ") != "call timer, call " {
		t.Errorf("ended with %+v and said %q", done, said)
	}
}

// What queueMicrotask runs may throw as the handler of a promise may: nothing of the script
// ends by that, and its logs say so.
func TestAMicrotaskThatThrowsIsAWarning(t *testing.T) {
	h := newHost()
	done := run(t, `queueMicrotask(() => { throw new RangeError('no') }); return await tools.demo.echo({i: 1})`, h, 30*time.Second)
	if done.Value != `{"i":1}` || len(h.logs) != 1 || h.logs[0].Level != "warn" || !strings.HasSuffix(h.logs[0].Message, "nothing handled it: RangeError: no") {
		t.Errorf("%+v %+v, logged %+v", done, done.Failure, h.logs)
	}
}

// A timer of no delay rang before one of a millisecond that was set before it.
func TestATimerOfNoDelayKeepsItsTurn(t *testing.T) {
	h := newHost()
	run(t, "setTimeout(() => 0, 1); setTimeout(() => 0); setTimeout(() => 0, -5); await new Promise(r => setTimeout(r, 2))", h, 30*time.Second)
	var delays []string
	for _, c := range h.calls {
		delays = append(delays, c.Args)
	}
	if got := strings.Join(delays, " "); got != "1 1 1 2" {
		t.Errorf("delays of %s", got)
	}
}
