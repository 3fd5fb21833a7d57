package vm_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// FuzzBridge holds what a script gets of an answer, and what it makes of it, against
// encoding/json: any text that is JSON comes out as it went in, and no other text is
// ever a value.
func FuzzBridge(f *testing.F) {
	for _, text := range []string{
		`{"a":[1,-0.5e2,true,null,"\u00e9\ud83d\ude00\n"],"__proto__":{"x":1},"toJSON":1}`, `[1,]`, `{"a":1,"a":2}`, `"\ud800"`, `1e999`, `-`, `[[[[]]]]`,
		`{"then":{}}`, `{"constructor":{"prototype":1}}`, ` "x" y`, `01`, `{"":0}`, "\"\x00\"", `12345678901234567890`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || strings.Count(text, "[")+strings.Count(text, "{") > 500 || strings.TrimSpace(text) == "" {
			return
		}
		h := newHost()
		h.answer = func(h *host, c frame.Call) { h.reply(c.Seq, text) }
		done := run(t, `const r = await tools.a.b().catch(e => e instanceof ToolError ? undefined : [e]); return r === undefined ? undefined : {r, again: JSON.parse(JSON.stringify(r))}`, h, 20*time.Second)
		if done.Failure != nil {
			t.Fatalf("%q: %+v", text, *done.Failure)
		}
		var want any
		valid := json.Unmarshal([]byte(text), &want) == nil
		if !valid {
			if done.Value != "" && !strings.ContainsAny(text, "eE") { // a number beyond those of Go is infinite here, and null
				t.Errorf("%q is no JSON and was a value: %s", text, done.Value)
			}
			return
		}
		var got struct{ R, Again any }
		if err := json.Unmarshal([]byte(done.Value), &got); err != nil || !reflect.DeepEqual(got.R, want) || !reflect.DeepEqual(got.Again, want) {
			t.Errorf("%q came out as %s", text, done.Value)
		}
	})
}

// JSON has a promise, a Map and a Set as {}: what a script sends by mistake is not sent, and
// what it returns is told of.
func TestWhatJSONLosesIsToldOf(t *testing.T) {
	for source, fix := range map[string]string{
		"tools.demo.echo(Promise.resolve({a: 1}))":                        "a promise, which JSON has as {}: await it, and a list of them with await Promise.all(list)",
		"tools.demo.echo({a: [tools.demo.echo({b: 1})]})":                 "a promise",
		"tools.demo.echo({a: new (class P extends Promise {})(() => 1)})": "a promise",
		"tools.demo.echo({a: new Map([[1, 2]])})":                         "a Map, which JSON has as {}: write Object.fromEntries(map), or [...map]",
		"tools.demo.echo({a: {b: new Set([1])}})":                         "a Set, which JSON has as {}: write [...set]",
	} {
		h := newHost()
		done := run(t, "return await "+source, h, 30*time.Second)
		if f := done.Failure; f == nil || f.Name != "TypeError" || !strings.HasPrefix(f.Message, "tools.demo.echo was given "+fix) {
			t.Errorf("%s: %+v", source, done)
		}
		for _, c := range h.calls {
			if c.Args != `{"b":1}` {
				t.Errorf("%s: it was sent as %s", source, c.Args)
			}
		}
	}
	for source, want := range map[string]string{
		"return [1, 2].map(async (b) => b)":                           "The result holds a promise, which JSON has as {}: await it, and a list of them with await Promise.all(list)",
		"return {a: new Map([[1, 2]])}":                               "The result holds a Map, which JSON has as {}: write Object.fromEntries(map), or [...map]",
		"return new Set([1])":                                         "The result holds a Set, which JSON has as {}: write [...set]",
		"return [{}, new Date(0), [new Error('x')], {a: null}]":       "",
		"return Object.assign(new Map(), {toJSON: () => 1})":          "",
		"return JSON.stringify([Promise.resolve(1), new Map()])":      "",
		"return tools.demo.echo({a: JSON.stringify(new Map())})":      "",
		"return tools.demo.echo({a: {then: 1, size: 2, forEach: 3}})": "",
	} {
		h := newHost()
		done := run(t, source, h, 30*time.Second)
		said := ""
		for _, l := range h.logs {
			said += l.Level + ": " + l.Message
		}
		if want != "" {
			want = "warn: " + want
		}
		if done.Failure != nil || said != want {
			t.Errorf("%s: %+v said %q", source, done, said)
		}
	}
}

// An action may be called as what other platforms ask objects for.
func TestAToolMayBeCalledInspect(t *testing.T) {
	h := newHost()
	h.answer = func(h *host, c frame.Call) { h.reply(c.Seq, `"`+c.Path+`"`) }
	if done := run(t, `console.log(tools.docker); return [await tools.docker.inspect({}), typeof tools.docker.then, (await tools.docker) === undefined]`, h, 30*time.Second); done.Value != `["docker.inspect","undefined",false]` {
		t.Errorf("%+v %+v", done, done.Failure)
	}
}
