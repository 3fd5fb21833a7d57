package vm_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/gate"
	"github.com/kimbap-run/kimbap/runtime/sandbox/vm"
)

// held is a host that answers only when a test says so: a script that waits for it is
// idle, and then the next reply is given.
type held struct {
	host
	most   int          // calls that it had at once
	flying map[int]bool // calls without a reply
	timers map[int]bool // calls that are timers
	pick   func(waiting []int) frame.Reply
}

func newHeld(pick func([]int) frame.Reply) *held {
	return &held{host: *newHost(), flying: map[int]bool{}, timers: map[int]bool{}, pick: pick}
}

func (h *held) Call(c frame.Call) {
	h.calls = append(h.calls, c)
	h.flying[c.Seq], h.timers[c.Seq] = true, c.Kind == frame.CallTimer
	h.most = max(h.most, len(h.flying))
}

func (h *held) Idle(i frame.Idle) {
	h.idle = append(h.idle, i)
	var had []int
	for seq := range h.flying {
		if slices.Contains(i.Waiting, seq) || i.Timers && h.timers[seq] {
			had = append(had, seq)
		}
	}
	slices.Sort(had)
	if r := h.pick(had); r.Seq != 0 {
		delete(h.flying, r.Seq)
		h.replies <- r
	}
}

func (h *held) args(seq int) string {
	for _, c := range h.calls {
		if c.Seq == seq {
			return c.Args
		}
	}
	return ""
}

func runOn(t interface{ Context() context.Context }, p *gate.Program, h vm.Host, l frame.Limits) frame.Done {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return vm.New().Run(ctx, p, frame.Run{Now: start, Seed: 7, Limits: l}, h)
}

func TestCallsAreMadeAtOnceUpToTheLimitAndInOrder(t *testing.T) {
	p, _ := gate.Check(`return (await Promise.all(Array.from({length: 40}, (_, i) => tools.demo.echo({i})))).map(r => r.i)`)
	h := newHeld(nil)
	h.pick = func(had []int) frame.Reply {
		last := had[len(had)-1] // the latest first: no order of replies may matter
		return frame.Reply{Seq: last, Now: start, Value: h.args(last)}
	}
	done := runOn(t, p, h, limits())
	if done.Failure != nil || !strings.HasPrefix(done.Value, "[0,1,2,3") || len(h.calls) != 40 {
		t.Fatalf("ended with %+v after %d calls", done, len(h.calls))
	}
	if h.most != 16 {
		t.Errorf("the host had %d calls at once, want 16", h.most)
	}
	for i, c := range h.calls {
		if c.Seq != i+1 || c.Args != fmt.Sprintf(`{"i":%d}`, i) || c.Path != "demo.echo" || c.Line != 1 {
			t.Fatalf("call %d is %+v", i, c)
		}
	}
}

// The order of replies decides a race, and the same order gives the same run.
func TestTheSameRepliesGiveTheSameRun(t *testing.T) {
	p, refusals := gate.Check(`
		const seen = [];
		const race = await Promise.race([1, 2, 3].map(i => tools.demo.echo({i}).then(r => r.i, e => e.code)));
		const more = [4, 5].map(async i => { try { seen.push((await tools.demo.echo({i})).i) } catch (e) { seen.push(e.code) } });
		const timer = new Promise(r => setTimeout(() => { seen.push('timer'); r() }, 10));
		await Promise.all([...more, timer]);
		return [race, seen, Math.random(), Date.now(), new Date().toISOString()];`)
	if p == nil {
		t.Fatal(refusals)
	}
	rapid.Check(t, func(r *rapid.T) {
		var script []frame.Reply
		first := newHeld(nil)
		first.pick = func(had []int) frame.Reply {
			seq := rapid.SampledFrom(had).Draw(r, "seq")
			reply := frame.Reply{Seq: seq, Now: start + int64(len(script))*7, Value: first.args(seq)}
			if rapid.Bool().Draw(r, "fails") {
				reply.Value, reply.Error = "", &frame.ToolError{Code: "upstream", Message: "no"}
			}
			script = append(script, reply)
			return reply
		}
		a := runOn(t, p, first, limits())
		at := 0
		second := newHeld(func([]int) frame.Reply { at++; return script[at-1] })
		b := runOn(t, p, second, limits())
		if !reflect.DeepEqual(a, b) || !reflect.DeepEqual(first.calls, second.calls) || !reflect.DeepEqual(first.idle, second.idle) {
			r.Fatalf("one run gave %+v\nthe other %+v", a, b)
		}
		if winner := fmt.Sprintf("[%d,", slices.Index([]int{0, 1, 2, 3}, script[0].Seq)); script[0].Error == nil && !strings.HasPrefix(a.Value, winner) {
			r.Fatalf("reply %d came first, but the race returned %s", script[0].Seq, a.Value)
		}
	})
}

// Any JSON goes over the bridge and back as it is, in both directions.
func TestJSONCrossesTheBridgeUnchanged(t *testing.T) {
	p, _ := gate.Check(`const a = await tools.demo.echo({}); const b = await tools.demo.echo(a); return b`)
	rapid.Check(t, func(r *rapid.T) {
		value := again(map[string]any{
			rapid.String().Draw(r, "key"): rapid.SliceOf(rapid.OneOf(
				rapid.Map(rapid.String(), func(s string) any { return s }),
				// JSON has no negative zero in JavaScript
				rapid.Map(rapid.Float64(), func(f float64) any { return f + 0 }),
				rapid.Map(rapid.Bool(), func(b bool) any { return b }),
				rapid.Just(any(nil)), rapid.Just(any(map[string]any{"__proto__": 1.0, "then": "x"})),
			)).Draw(r, "list"),
		})
		h := newHeld(nil)
		h.pick = func(had []int) frame.Reply {
			if had[0] == 1 {
				return frame.Reply{Seq: 1, Now: start, Value: value}
			}
			return frame.Reply{Seq: had[0], Now: start, Value: h.args(had[0])}
		}
		done := runOn(t, p, h, limits())
		if done.Failure != nil || normal(done.Value) != normal(value) {
			r.Fatalf("%s came back as %s %+v", value, done.Value, done.Failure)
		}
	})
}

func TestACallThatIsNotAwaitedIsToldOf(t *testing.T) {
	p, _ := gate.Check(`tools.demo.echo({a: 1}); tools.demo.echo({a: 2}); return 'done'`)
	h := newHeld(func([]int) frame.Reply { return frame.Reply{} })
	done := runOn(t, p, h, limits())
	// The host says it of those that it has, by their names.
	if done.Value != `"done"` || !slices.Equal(done.Unawaited, []int{1, 2}) || len(h.logs) != 0 {
		t.Fatalf("ended with %+v, logs %+v", done, h.logs)
	}
	few := limits()
	few.InFlight = 1
	done = runOn(t, p, h, few)
	if !slices.Equal(done.Unawaited, []int{1}) || len(h.logs) != 1 || h.logs[0].Level != "warn" || !strings.Contains(h.logs[0].Message, "never made") {
		t.Fatalf("with one at once ended with %+v, logs %+v", done, h.logs)
	}
}

func TestACallThatIsHeldLeavesTheScriptIdle(t *testing.T) {
	p, _ := gate.Check(`await tools.demo.danger({}); return 'ran'`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := newHeld(nil)
	h.pick = func(had []int) frame.Reply {
		cancel() // the host says no more: nothing may be learned from that
		return frame.Reply{}
	}
	done := vm.New().Run(ctx, p, frame.Run{Now: start, Limits: limits()}, h)
	if done.Failure == nil || done.Failure.Kind != frame.KindInterrupted || len(h.idle) != 1 || !slices.Equal(h.idle[0].Waiting, []int{1}) {
		t.Fatalf("ended with %+v, idle %+v", done, h.idle)
	}
}

func TestWhatTheHostSaysWrongEndsTheRun(t *testing.T) {
	p, _ := gate.Check(`try { return await tools.demo.echo({}) } catch (e) { console.log(e.tool, e.message); return e.code }`)
	for name, c := range map[string]struct {
		reply frame.Reply
		value string
		kind  frame.Kind
	}{
		"a reply to no call":       {frame.Reply{Seq: 9}, "", frame.KindInterrupted},
		"a reply that is no JSON":  {frame.Reply{Seq: 1, Value: "{"}, `"internal"`, ""},
		"a reply without a value":  {frame.Reply{Seq: 1}, "", ""},
		"a reply that is too deep": {frame.Reply{Seq: 1, Value: strings.Repeat("[", 5000)}, `"upstream"`, ""},
	} {
		h := newHeld(func([]int) frame.Reply { return c.reply })
		done := runOn(t, p, h, limits())
		if name == "a reply that is too deep" && !strings.Contains(fmt.Sprint(h.logs), "demo.echo The answer nests too deep for a script; it was done: do not send it again for that") {
			t.Errorf("the script was told %v", h.logs)
		}
		if done.Value != c.value || (c.kind != "") != (done.Failure != nil) || done.Failure != nil && done.Failure.Kind != c.kind {
			t.Errorf("%s: %+v %+v", name, done, done.Failure)
		}
	}
	h := newHeld(nil)
	h.pick = func([]int) frame.Reply { close(h.replies); return frame.Reply{} }
	if done := runOn(t, p, h, limits()); done.Failure == nil || done.Failure.Kind != frame.KindInterrupted {
		t.Errorf("a host that is gone: %+v", done)
	}
}

func TestAToolErrorHasItsWordsAndThePlaceOfItsCall(t *testing.T) {
	got := again(value(t, `
		const e = await tools.demo.fail({}).catch(e => e);
		return [e instanceof Error, e instanceof ToolError, e.name, e.message, e.tool, e.code, e.status, e.retryable, String(e)]`))
	if want := `[true,true,"ToolError","the upstream said no","demo.fail","upstream",502,true,"ToolError: the upstream said no"]`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	done := run(t, "const x: number = 1;\n\n  await tools.demo.fail({x});", newHost(), 30*time.Second)
	if f := done.Failure; f == nil || f.Name != "ToolError" || f.Line != 3 || f.Stack == "" {
		t.Errorf("failed with %+v", f)
	}
}

// failures: source → name, line:column and message.
func TestAFailureNamesItsPlaceInTheSourceAsGiven(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"null.x", "TypeError 1:6 Cannot read property 'x' of undefined"},
		{"\n  const a = 1;\n  a.b.c;", "TypeError 3:7 Cannot read property 'c' of undefined"},
		{"const 가 = null; 가.b", "TypeError 1:19 Cannot read property 'b' of undefined"},
		{"```ts\nconst x: number = 1;\nthrow new RangeError('r')\n```", "RangeError 3:7 r"},
		{"type A = { a: string };\nfunction f(a: A): never {\n    throw new Error(a.a);\n}\n\nf({ a: 'é' })", "Error 3:11 é"},
		{"throw 'text'", "Error 0:0 text"},
		{"throw {a: 1}", `Error 0:0 {"a":1}`},
		{"throw null", "Error 0:0 The script threw null"},
		{"setTimeout(() => { throw new Error('late') }, 1); await new Promise(() => {})", "Error 1:26 late"},
		{"return {get a() { throw new Error('mine') }}", "Error 1:25 The result of the script is no JSON: mine"},
		{"return `${Object.create(null)}`", "TypeError 1:24 Cannot convert object to primitive value"},
	} {
		done := run(t, c.source, newHost(), 30*time.Second)
		if done.Failure == nil {
			t.Errorf("%q returned %s", c.source, done.Value)
			continue
		}
		if f := done.Failure; fmt.Sprintf("%s %d:%d %s", f.Name, f.Line, f.Column, f.Message) != c.want {
			t.Errorf("%q failed with %s %d:%d %s\nwant %s", c.source, f.Name, f.Line, f.Column, f.Message, c.want)
		}
	}
}

func TestLogsAreShownAndCapped(t *testing.T) {
	h := newHost()
	run(t, "console.log('a', 1, {b: [1]}, new Map([[1, {a: 2}]]), new Set(['x']), 1n, Symbol('q'), () => 1, undefined, null, tools, tools.demo)\n  console.error(new TypeError('bad'))", h, 30*time.Second)
	want := []frame.Log{
		{Level: "log", Message: `a 1 {"b":[1]} Map(1) {1 => {"a":2}} Set(1) {x} 1 Symbol(q) [function] undefined null [tools] [tools.demo]`},
		{Level: "error", Message: "TypeError: bad\nat script (2:17)"},
	}
	if !reflect.DeepEqual(h.logs, want) {
		t.Errorf("logged %+v\nwant   %+v", h.logs, want)
	}
	h = newHost()
	run(t, "for (let i = 0; i < 1000; i++) console.log('x'.repeat(1000)); return 1", h, 30*time.Second)
	size := 0
	for _, l := range h.logs {
		size += len(l.Message)
	}
	if last := h.logs[len(h.logs)-1]; size > 256<<10+200 || last.Level != "warn" || !strings.Contains(last.Message, "dropped") {
		t.Errorf("logged %d bytes, the last %+v", size, last)
	}
}

// A Map that held itself was shown without end, and an object that did, or held a bigint,
// not at all.
func TestLogsShowWhatHoldsItself(t *testing.T) {
	for code, want := range map[string]string{
		`const m = new Map(); m.set('a', m).set('b', 1); console.log(m)`:                                 "Map(2) {a => [Circular], b => 1}",
		`const s = new Set(); s.add(new Map([[s, s]])); console.log(s, s)`:                               "Set(1) {Map(1) {[Circular] => [Circular]}} Set(1) {Map(1) {[Circular] => [Circular]}}",
		`const a = new Set([1]); console.log(new Set([a, new Map([[a, a]])]))`:                           "Set(2) {Set(1) {1}, Map(1) {Set(1) {1} => Set(1) {1}}}",
		`let s = new Set(['in']); for (let i = 0; i < 1e5; i++) s = new Set([s]); console.log(s)`:        strings.Repeat("Set(1) {", 10) + "[Set]" + strings.Repeat("}", 10),
		`const o = {b: 1n, l: [2n]}; o.self = o; o.l.push(o, {o}); console.log(o)`:                       `{"b":"1n","l":["2n","[Circular]",{"o":"[Circular]"}],"self":"[Circular]"}`,
		`const a = {}; console.log({a, b: [a, a]})`:                                                      `{"a":{},"b":[{},{}]}`,
		`console.log({e: new RangeError('r'), own: Object.assign(new Error('m'), {code: 1})})`:           `{"e":"[RangeError: r]","own":{"code":1}}`,
		`console.log({get a() { throw 1 }})`:                                                             `[object that cannot be shown]`,
		`const o = {m: new Map()}; o.m.set('o', o); console.log(o, o.m)`:                                 `{"m":{}} Map(1) {o => {"m":{}}}`,
		`const m = new Map(); m.forEach = () => { throw 1 }; m.set(1, {toString: null}); console.log(m)`: "Map(1) {1 => {\"toString\":null}}",
	} {
		h := newHost()
		if done := run(t, code, h, 30*time.Second); done.Failure != nil || len(h.logs) != 1 || h.logs[0].Message != want {
			t.Errorf("%s\nlogged %+v, ended %+v", code, h.logs, done)
		}
	}
}

func TestEveryLimitHasItsKind(t *testing.T) {
	for source, want := range map[string]frame.Kind{
		"for (let i = 0; i < 501; i++) await tools.demo.echo({})": frame.KindCalls,
		"await tools.demo.echo({a: 'x'.repeat(2e6)})":             frame.KindCalls,
		"return 'x'.repeat(2e6)":                                  frame.KindMemory,
		"return 'x'.repeat(1e9)":                                  frame.KindMemory,
		"const f = () => f(); try { f() } catch {}":               frame.KindStack,
		"await new Promise(() => {})":                             frame.KindDeadlock,
		"throw 1":                                                 frame.KindException,
		"import 'fs'":                                             frame.KindRejected,
	} {
		if done := run(t, source, newHost(), 30*time.Second); done.Failure == nil || done.Failure.Kind != want {
			t.Errorf("%q ended with %+v, want %s", source, done.Failure, want)
		}
	}
	if done := run(t, "return 'x'.repeat(2e6)", newHost(), 30*time.Second); done.Failure == nil || done.Failure.Message != "The result of the script is over 1 MiB" {
		t.Errorf("a long result ended with %+v", done.Failure)
	}
	if done := run(t, "try { for (;;); } finally { for (;;); }", newHost(), 200*time.Millisecond); done.Failure == nil || done.Failure.Kind != frame.KindTimeout {
		t.Errorf("an endless loop ended with %+v", done.Failure)
	}
}

// normal is a JSON text as Go writes what it means.
func normal(text string) string {
	v, err := decode(text)
	if err != nil {
		return err.Error()
	}
	return again(v)
}

// Jobs of promises run one after the other, as they came: what a handler puts off comes
// after what waited already, by whatever function it was called.
func TestJobsRunInTheirTurn(t *testing.T) {
	for name, first := range map[string]string{
		"catch":          `Promise.reject(1).catch(later)`,
		"then":           `Promise.resolve(1).then(later)`,
		"both":           `Promise.reject(1).then(null, later)`,
		"finally":        `Promise.resolve(1).finally(later)`,
		"proxy":          `Promise.resolve(1).then(new Proxy(later, {}))`,
		"queueMicrotask": `queueMicrotask(later)`,
		"a native":       `Promise.resolve({toJSON: later}).then(JSON.stringify)`,
		"a tool":         `Promise.resolve({get a() { return later() }}).then(tools.demo.echo)`,
	} {
		source := `const out = []; const later = () => { out.push("a"); Promise.resolve().then(() => out.push("put off")) };
			` + first + `; Promise.resolve().then(() => out.push("b")); Promise.resolve().then(() => out.push("c"));
			for (let i = 0; i < 9; i++) await 1; return out.join()`
		if got := value(t, source); got != "a,b,c,put off" {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := value(t, `let n = 0; const again = () => ++n < 20000 ? Promise.reject().catch(again) : n; return await again()`); got != 20000.0 {
		t.Errorf("one after the other, %v", got)
	}
}
